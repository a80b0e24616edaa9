//! A run in a browser: starts it, and passes the page's events on.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use parallax_engine::measure::runner::Flow;
use parallax_schema::record::Event;
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;

use super::address::{Address, At};
use super::connections::Limits;
use super::energy::PageCounter;
use super::token::Token;
use super::{
    BrowserError, BrowserOptions, chromium, energy, events, executable, kernels, page, patience, process, query, server,
};
use crate::console::errln;

/// Beginning of a page's message that no GPU was found.
const NO_ADAPTER: &str = "no GPU adapter";

/// Interval between calls without an event.
const TICK: Duration = Duration::from_millis(250);
/// End of an attempt without an error.
enum Attempt {
    Done,
    /// The page found no GPU, or an emulation.
    WithoutGpu,
}

/// Runs a spec in a browser. Passes events to the receiver until the page ends or the receiver stops. Passes `None`
/// after a moment without events, for drawing or for stopping. A browser of the Chromium family that misses the GPU of a
/// Linux machine is started once more, with flags for Vulkan.
///
/// The end arrives as [`Event::End`] or [`Event::Unavailable`]; both are results, not errors.
pub fn run(
    options: &BrowserOptions,
    spec: &Spec,
    mode: Mode,
    on_event: &mut dyn FnMut(Option<Event>) -> Flow,
) -> Result<(), BrowserError> {
    let again = options.through_vulkan();
    let ended = attempt(options, spec, mode, again.is_some(), on_event)?;
    if let (Attempt::WithoutGpu, Some(again)) = (ended, again) {
        let flags = chromium::VULKAN.join(" ");
        errln!("the browser found no GPU, and is started once more with {flags}");
        attempt(&again, spec, mode, false, on_event)?;
    }
    Ok(())
}

/// Runs a spec in a browser. With `demanding`, a page without a GPU ends the attempt before any event is passed on.
fn attempt(
    options: &BrowserOptions,
    spec: &Spec,
    mode: Mode,
    demanding: bool,
    on_event: &mut dyn FnMut(Option<Event>) -> Flow,
) -> Result<Attempt, BrowserError> {
    let page = page(options)?;
    let executable = executable(options)?;
    let (sender, events) = mpsc::channel();
    let token =
        Token::new().map_err(|error| BrowserError::Serve(format!("cannot generate a random token: {error}")))?;
    let counter = spec.energy.then(PageCounter::default);
    let beside = |address: &Address| {
        let mut router = events::router(sender, address, &token);
        if let Some(folder) = &options.kernels {
            router = router.merge(kernels::router(folder.clone(), address, &token));
        }
        match &counter {
            Some(counter) => router.merge(energy::router(counter.clone(), address, &token)),
            None => router,
        }
    };
    let server = server::Server::start(page, At::loopback(0), Limits::default(), beside)?;
    let url = format!("{}?{}", server.address.url(), query(options, spec, mode, token.text()));
    let mut browser = process::Browser::start(&executable, options, &url)?;

    let patience = patience(spec);
    let mut heard = Instant::now();
    loop {
        let event = match events.recv_timeout(TICK) {
            Ok(event) if demanding && without_gpu(&event) => return Ok(Attempt::WithoutGpu),
            Ok(Event::Begin { mut run }) => {
                counter.iter().for_each(|counter| counter.open(run.device(), options.card.as_deref()));
                run.environment.extend(browser.facts());
                run.environment.insert("browser_flags".to_owned(), options.flags.join(" "));
                Some(Event::Begin { run })
            }
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(BrowserError::Serve("the server stopped".to_owned())),
        };
        let waiting = event.is_none();
        let last = matches!(event, Some(Event::End { .. } | Event::Unavailable { .. }));
        if on_event(event) == Flow::Stop || last {
            return Ok(Attempt::Done);
        }
        if !waiting {
            heard = Instant::now();
            continue;
        }
        // This check follows an empty queue: the last events of a browser that ends come first.
        if let Some(status) = browser.ended() {
            return Err(BrowserError::Died { status, said: browser.last_words() });
        }
        if heard.elapsed() > patience {
            return Err(BrowserError::Silent { seconds: heard.elapsed().as_secs(), said: browser.last_words() });
        }
    }
}

/// Whether an event says that the page has no GPU. A plan without a case is another reason to end.
pub(super) fn without_gpu(event: &Event) -> bool {
    match event {
        Event::Begin { run } => run.device().kind.is_emulated(),
        Event::Unavailable { reason } => lacks_gpu(reason),
        _ => false,
    }
}

/// Whether a page's message says that it has no GPU.
pub(super) fn lacks_gpu(reason: &str) -> bool {
    reason.contains(NO_ADAPTER)
}

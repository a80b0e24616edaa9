//! A model in a browser: gives a job to the page, and receives its passes.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use parallax_learn::{Job, Message, Passes, longest_passes};
use parallax_schema::device::{ClockInfo, DeviceInfo};
use parallax_schema::record::{Run, Suite};
use parallax_schema::spec::{Spec, query};
use parallax_schema::units::Nanos;

use super::address::{Address, At};
use super::attempt::lacks_gpu;
use super::connections::Limits;
use super::jobs::{JOBS, JobEvent, JobService};
use super::token::Token;
use super::{
    BrowserError, BrowserMode, BrowserOptions, PATIENCE, PageTarget, chromium, executable, kernels, page, process,
    server,
};
use crate::console::errln;
use crate::interrupts::interrupted;
use crate::progress::Progress;
use crate::session;

/// Folder of the page's program for models.
const FOLDER: &str = "models";
/// Interval between looks at the browser.
const TICK: Duration = Duration::from_millis(250);
/// Longest silence over the time so far. Every timed pass takes as long as the first one, which has a message each second.
const SILENCE: u32 = 3;

/// Result of an attempt; none for a page without a GPU.
type Attempt = Option<(Run, Passes)>;

/// Computes a job in a browser. Returns a run without records, and the passes. A browser of the Chromium family that misses the GPU
/// of a Linux machine is started once more, with flags for Vulkan.
///
/// # Errors
/// Page without a program for models, a browser or a page that failed, passes of another job, or an interruption.
pub fn evaluate(options: &BrowserOptions, job: &Job) -> Result<(Run, Passes), BrowserError> {
    let again = options.through_vulkan();
    if let Some(done) = attempt(options, job, again.is_some())? {
        return Ok(done);
    }
    let again = again.as_ref().unwrap_or(options);
    errln!("the browser found no GPU, and is started once more with {}", chromium::VULKAN.join(" "));
    attempt(again, job, false)?.ok_or_else(|| BrowserError::Failed("no GPU".to_owned()))
}

/// Computes a job in a browser. With `demanding`, a page without a GPU ends the attempt.
fn attempt(options: &BrowserOptions, job: &Job, demanding: bool) -> Result<Attempt, BrowserError> {
    let page = page(options)?;
    if !page.has(&format!("{FOLDER}/index.html")) {
        return Err(BrowserError::NoModels { page: page.to_string() });
    }
    let executable = executable(options)?;
    let bytes = job.to_bytes().map_err(|why| BrowserError::Failed(why.to_string()))?;
    let token =
        Token::new().map_err(|error| BrowserError::Serve(format!("cannot generate a random token: {error}")))?;
    let (sender, events) = mpsc::channel();
    let service = JobService { job: bytes.into(), longest: longest_passes(job), sender };
    let beside = |address: &Address| {
        let router = service.router(address, &token);
        match &options.kernels {
            Some(folder) => router.merge(kernels::router(folder.clone(), address, &token)),
            None => router,
        }
    };
    let server = server::Server::start(page, At::loopback(0), Limits::default(), beside)?;
    let url = format!("{}{FOLDER}/?{}", server.address.url(), address_query(options, token.text()));
    let browser = process::Browser::start(&executable, options, &url)?;
    let progress = Progress::new(options.target.name());
    let ended = Visit { options, job, demanding, browser, progress: &progress }.passes(&events);
    progress.clear();
    ended
}

/// Browser at the page, with its job.
struct Visit<'a> {
    options: &'a BrowserOptions,
    job: &'a Job,
    demanding: bool,
    browser: process::Browser,
    progress: &'a Progress,
}

impl Visit<'_> {
    /// Waits for the passes.
    fn passes(&mut self, events: &Receiver<JobEvent>) -> Result<Attempt, BrowserError> {
        let began = Instant::now();
        let (mut begun, mut heard) = (None, began);
        while !interrupted() {
            match events.recv_timeout(TICK) {
                Ok(JobEvent::Message(Message::Begin { device, .. })) if self.demanding && device.kind.is_emulated() => {
                    return Ok(None);
                }
                Ok(JobEvent::Message(Message::Failed { reason })) if self.demanding && lacks_gpu(&reason) => {
                    return Ok(None);
                }
                Ok(JobEvent::Message(Message::Failed { reason })) => return Err(BrowserError::Failed(reason)),
                Ok(JobEvent::Message(Message::Begin { device, clock, suite, environment })) => {
                    begun = Some(self.header(suite, (&device, &clock), environment));
                }
                Ok(JobEvent::Message(Message::Progress { share })) => {
                    let share = share.clamp(0.0, 1.0);
                    let left = began.elapsed().as_nanos() as f64 * (1.0 / share.max(0.01) - 1.0);
                    self.progress.at(share, Nanos(left));
                }
                Ok(JobEvent::Passes(bytes)) => {
                    let passes = Passes::from_bytes(&bytes, self.job);
                    let passes = passes.map_err(|why| BrowserError::Failed(why.to_string()))?;
                    let run = begun.ok_or_else(|| BrowserError::Failed("it named no device".to_owned()))?;
                    return Ok(Some((run, passes)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BrowserError::Serve("the server stopped".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.alive(heard.elapsed(), PATIENCE + SILENCE * (heard - began))?;
                    continue;
                }
            }
            heard = Instant::now();
        }
        Err(BrowserError::Stopped)
    }

    /// Checks a browser after a silence. The queue is empty: the last messages of a browser that ends come first.
    fn alive(&mut self, silence: Duration, patience: Duration) -> Result<(), BrowserError> {
        if let Some(status) = self.browser.ended() {
            return Err(BrowserError::Died { status, said: self.browser.last_words() });
        }
        match silence > patience {
            true => Err(BrowserError::Silent { seconds: silence.as_secs(), said: self.browser.last_words() }),
            false => Ok(()),
        }
    }

    /// Returns a run without records.
    fn header(
        &self,
        suite: Suite,
        (device, clock): (&DeviceInfo, &ClockInfo),
        environment: BTreeMap<String, String>,
    ) -> Run {
        let options = self.options;
        let reach = (options.target == PageTarget::Browser).then(|| options.reach.found(clock));
        let target = options.target.name();
        let mut run =
            Run { reach, environment, ..Run::begin_on(target, suite, (device, clock), &Spec::default(), Vec::new()) };
        run.environment.extend(self.browser.facts());
        run.environment.insert("browser_flags".to_owned(), options.flags.join(" "));
        session::complete(&mut run, options);
        run
    }
}

/// Returns the page's query: target, mode, and the URLs of job and kernel sources with their token.
fn address_query(options: &BrowserOptions, token: &str) -> String {
    let mut pairs = vec![("job", format!("{JOBS}/{token}")), ("target", options.target.name().to_owned())];
    if options.target == PageTarget::Browser && options.reach != BrowserMode::Stock {
        pairs.push(("features", options.reach.name().to_owned()));
    }
    if options.kernels.is_some() {
        pairs.push(("kernels", format!("{}/{token}", kernels::KERNELS)));
    }
    query::write(&pairs)
}

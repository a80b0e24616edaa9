//! The targets `browser` and `wasm`: serve the page to a browser on this machine, and listen to what it measures.
//!
//! The page runs by itself and posts every event, so a browser that dies takes no finished record with it.

pub(crate) mod address;
pub(crate) mod body;
pub(crate) mod connections;
mod events;
mod kernels;
mod launch;
mod page;
pub(crate) mod server;
mod tls;
pub(crate) mod token;

pub use launch::{flags, is_root};
pub use page::{Page, find as find_page};

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use parallax_core::device::{BrowserMode, DeviceInfo};
use parallax_core::measure::runner::{Flow, Mode};
use parallax_core::plan::{Spec, query};
use parallax_core::record::Event;
use parallax_core::units::Nanos;

use crate::files::NoTemporary;
use address::{Address, At};
use connections::Limits;
use token::Token;

/// How to run the page.
#[derive(Debug, Clone, Default)]
pub struct BrowserOptions {
    /// The browser's executable; otherwise `PARALLAX_BROWSER`, otherwise one is looked for.
    pub browser: Option<PathBuf>,
    /// Further flags for the browser.
    pub flags: Vec<String>,
    /// Further variables of its environment.
    pub environment: Vec<(String, String)>,
    /// Why it may run on another card than the one that was asked for.
    pub doubt: Option<String>,
    /// The machine's one GPU, which a page may know no name of.
    pub card: Option<String>,
    /// Use the browser's software adapter: for machines without a GPU, and for tests.
    pub software: bool,
    /// What the page may use, unless a flag of `flags` gives it more.
    pub reach: BrowserMode,
    /// What the page measures.
    pub target: PageTarget,
    /// How many threads of the processor the page computes with; all of them, if not said.
    pub threads: Option<usize>,
    /// Folder of kernel texts in WGSL that stand before the page's own.
    pub kernels: Option<PathBuf>,
    /// Folder of the built page; otherwise `PARALLAX_PAGE`, otherwise the program's own, otherwise `dist` in the usual places.
    pub page: Option<PathBuf>,
}

impl BrowserOptions {
    /// A warning where a page computes on this device, an emulation, although the machine has a GPU.
    pub fn passes_by(&self, device: &DeviceInfo) -> Option<String> {
        let wanted = self.software || self.flags.iter().any(|flag| flag.contains("swiftshader"));
        (self.target == PageTarget::Browser && device.kind.is_emulated() && !wanted).then(|| {
            format!(
                "the browser computes on {}, although this machine has a GPU; on Linux, add --browser-flag=--enable-features=Vulkan \
                 and --browser-flag=--use-angle=vulkan",
                device.name
            )
        })
    }
}

/// A target that a page can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageTarget {
    /// The GPU, through WebGPU.
    #[default]
    Browser,
    /// The processor, by what is compiled into the page.
    Wasm,
}

impl PageTarget {
    /// Its name in flags, addresses and records.
    pub const fn name(self) -> &'static str {
        match self {
            PageTarget::Browser => "browser",
            PageTarget::Wasm => "wasm",
        }
    }
}

/// Names the browser's executable where nobody else does.
pub const BROWSER: &str = "PARALLAX_BROWSER";
/// Names the folder of the built page where nobody else does.
pub const PAGE: &str = "PARALLAX_PAGE";

/// Why the browser gave no, or not all, results. Records delivered before the error stand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// No folder holds a built page.
    #[error(
        "the page is not built: no index.html in {looked}; build it with `./x page`, or name its folder with PARALLAX_PAGE"
    )]
    NoPage {
        /// Where it was looked for.
        looked: String,
    },
    /// No browser.
    #[error(
        "no browser: looked for {looked}; install Chrome or Chromium, or name one with --browser PATH or PARALLAX_BROWSER"
    )]
    NoBrowser {
        /// What was looked for.
        looked: String,
    },
    /// Two wishes that exclude each other.
    #[error(
        "browsers offer their software adapter to developers only, whose clock is not rounded: --features stock needs a GPU"
    )]
    StockSoftware,
    /// The browser could not be started.
    #[error("{browser} does not start: {why}")]
    Start {
        /// Its path.
        browser: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// There is no place for the browser's profile.
    #[error(transparent)]
    NoTemporary(#[from] NoTemporary),
    /// The browser ended before the run did.
    #[error("the browser ended early ({status}){said}")]
    Died {
        /// How it ended.
        status: String,
        /// The last lines of its log, each on a line of its own.
        said: String,
    },
    /// The browser lives and says nothing.
    #[error("the page has said nothing for {seconds} s{said}")]
    Silent {
        /// For how long.
        seconds: u64,
        /// The last lines of the browser's log, each on a line of its own.
        said: String,
    },
    /// The page could not be served.
    #[error("the page cannot be served on this machine: {0}")]
    Serve(String),
}

/// How often the caller hears that nothing has happened.
const TICK: Duration = Duration::from_millis(250);
/// How long a page may be silent beyond the time that sampling one case may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// A case may overrun its share of the budget so many times; the runner's stop rule sees to that.
const OVERRUN: f64 = 3.0;

/// The page that a run would show.
pub fn page(options: &BrowserOptions) -> Result<Page, BrowserError> {
    page::find(options.page.as_deref())
}

/// The browser that a run would start.
pub fn executable(options: &BrowserOptions) -> Result<PathBuf, BrowserError> {
    launch::find(options.browser.as_deref())
}

/// Whether a run could start: the browser that it would use, or what is missing.
pub fn ready(options: &BrowserOptions) -> Result<PathBuf, BrowserError> {
    page(options)?;
    if options.reach == BrowserMode::Stock && options.software {
        return Err(BrowserError::StockSoftware);
    }
    executable(options)
}

/// Run a spec in a browser and hand over its events until the page is done or the receiver has had enough. Nothing is
/// handed over when nothing has happened for a moment: an occasion to draw, or to stop.
///
/// The end arrives as [`Event::End`] or [`Event::Unavailable`]; both are results, not errors.
pub fn run(
    options: &BrowserOptions,
    spec: &Spec,
    mode: Mode,
    on_event: &mut dyn FnMut(Option<Event>) -> Flow,
) -> Result<(), BrowserError> {
    let page = page(options)?;
    let executable = executable(options)?;
    let (sender, events) = mpsc::channel();
    let token = Token::new().map_err(|error| BrowserError::Serve(format!("no random token could be made: {error}")))?;
    let beside = |address: &Address| {
        let events = events::router(sender, address, &token);
        match &options.kernels {
            Some(folder) => events.merge(kernels::router(folder.clone(), address, &token)),
            None => events,
        }
    };
    let server = server::Server::start(page, At::loopback(0), Limits::default(), beside)?;
    let url = format!("{}?{}", server.address.url(), query(options, spec, mode, token.text()));
    let mut browser = launch::Browser::start(&executable, options, &url)?;

    let patience = patience(spec);
    let mut heard = Instant::now();
    loop {
        let event = match events.recv_timeout(TICK) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(BrowserError::Serve("the server stopped".to_owned())),
        };
        let waiting = event.is_none();
        let last = matches!(event, Some(Event::End { .. } | Event::Unavailable { .. }));
        if on_event(event) == Flow::Stop || last {
            return Ok(());
        }
        if !waiting {
            heard = Instant::now();
            continue;
        }
        // Only when the queue is empty: what a dying browser still said comes first.
        if let Some(status) = browser.ended() {
            return Err(BrowserError::Died { status, said: browser.last_words() });
        }
        if heard.elapsed() > patience {
            return Err(BrowserError::Silent { seconds: heard.elapsed().as_secs(), said: browser.last_words() });
        }
    }
}

/// Longer no case takes.
const DAY: Duration = Duration::from_secs(86_400);

/// The longest silence that is not suspicious.
fn patience(spec: &Spec) -> Duration {
    // The plan is the page's, so the number of cases is not known here: as if one case had the whole budget.
    PATIENCE + Nanos::from_secs(OVERRUN * spec.budget).duration().min(DAY)
}

/// The page's query: what to measure, how, the spec in its own words, and where to report, with the token.
fn query(options: &BrowserOptions, spec: &Spec, mode: Mode, token: &str) -> String {
    let mut pairs = vec![("report", format!("{}/{token}", events::EVENTS))];
    if options.target == PageTarget::Wasm {
        pairs.push(("target", options.target.name().to_owned()));
    } else if options.reach != BrowserMode::Stock {
        pairs.push(("features", options.reach.name().to_owned()));
    }
    pairs.extend(options.threads.map(|threads| ("threads", threads.to_string())));
    if options.kernels.is_some() {
        pairs.push(("kernels", format!("{}/{token}", kernels::KERNELS)));
    }
    if mode == Mode::Verify {
        pairs.push(("mode", "verify".to_owned()));
    }
    pairs.extend(spec.to_pairs());
    query::write(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::device::DeviceKind;

    #[test]
    fn an_emulation_beside_a_gpu_is_a_warning() {
        let device = |kind| {
            let mut device = parallax_core::testing::fixtures::run("browser", "SwiftShader", &[]).devices.remove(0);
            device.kind = kind;
            device
        };
        let options = BrowserOptions::default();
        let warning = options.passes_by(&device(DeviceKind::Software)).expect("a warning");
        assert!(warning.contains("SwiftShader") && warning.contains("--enable-features=Vulkan"), "{warning}");
        assert_eq!(options.passes_by(&device(DeviceKind::Discrete)), None);
        let wanted = BrowserOptions { software: true, ..BrowserOptions::default() };
        assert_eq!(wanted.passes_by(&device(DeviceKind::Software)), None);
    }

    #[test]
    fn the_query_carries_target_spec_and_mode() {
        let spec = Spec::from_pairs([("filter", "a*b&100%"), ("case", "attention/fwd/b1,h1,s1,d1/f32/flash")]);
        let stock = BrowserOptions::default();
        assert_eq!(
            query(&stock, &spec.expect("valid"), Mode::Verify, "t0"),
            "report=/api/events/t0&mode=verify&filter=a*b%26100%25&case=attention/fwd/b1,h1,s1,d1/f32/flash"
        );
        assert_eq!(query(&stock, &Spec::default(), Mode::Measure, "t0"), "report=/api/events/t0");
        let further = BrowserOptions { reach: BrowserMode::Unsafe, ..stock };
        assert_eq!(query(&further, &Spec::default(), Mode::Measure, "t0"), "report=/api/events/t0&features=unsafe");
        let mine = BrowserOptions { kernels: Some("mine".into()), ..BrowserOptions::default() };
        assert_eq!(
            query(&mine, &Spec::default(), Mode::Measure, "t0"),
            "report=/api/events/t0&kernels=/api/kernels/t0"
        );
        let wasm = BrowserOptions { target: PageTarget::Wasm, ..further };
        assert_eq!(query(&wasm, &Spec::default(), Mode::Measure, "t0"), "report=/api/events/t0&target=wasm");
        let alone = BrowserOptions { threads: Some(1), ..wasm };
        assert_eq!(query(&alone, &Spec::default(), Mode::Measure, "t0"), "report=/api/events/t0&target=wasm&threads=1");
    }

    #[test]
    fn patience_grows_with_the_budget_and_is_finite() {
        let of = |budget| patience(&Spec { budget, ..Spec::default() }).as_secs();
        assert_eq!((of(2.0), of(45.0), of(1e300)), (126, 255, 86_520));
    }

    #[test]
    fn a_missing_page_says_how_to_build_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = BrowserOptions { page: Some(folder.path().to_owned()), ..Default::default() };
        let error = run(&options, &Spec::default(), Mode::Verify, &mut |_| Flow::Continue).expect_err("no page");
        assert!(error.to_string().contains("./x page"), "{error}");
    }

    #[test]
    fn a_missing_browser_says_what_was_looked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("index.html"), "").expect("written");
        let browser = folder.path().join("no-such-browser");
        let options = BrowserOptions {
            browser: Some(browser.clone()),
            page: Some(folder.path().to_owned()),
            ..Default::default()
        };
        let error = run(&options, &Spec::default(), Mode::Verify, &mut |_| Flow::Continue).expect_err("no browser");
        let text = error.to_string();
        assert!(text.contains(&browser.display().to_string()) && text.contains("PARALLAX_BROWSER"), "{text}");
    }

    /// A shell script in the place of a browser.
    #[cfg(unix)]
    fn run_fake(script: &str) -> (Result<(), BrowserError>, Vec<Event>) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("index.html"), "").expect("written");
        let browser = folder.path().join("fake-browser");
        std::fs::write(&browser, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let options =
            BrowserOptions { browser: Some(browser), page: Some(folder.path().to_owned()), ..Default::default() };
        let mut seen = Vec::new();
        let ended = run(&options, &Spec::default(), Mode::Verify, &mut |event| {
            seen.extend(event);
            Flow::Continue
        });
        (ended, seen)
    }

    #[cfg(unix)]
    #[test]
    fn a_browser_that_dies_is_reported_with_its_last_words() {
        let (ended, seen) = run_fake("echo out of everything >&2; exit 7");
        let error = ended.expect_err("died").to_string();
        assert!(error.contains("exit status: 7") && error.contains("out of everything"), "{error}");
        assert_eq!(seen, []);
    }

    #[cfg(unix)]
    #[test]
    fn stopping_ends_the_browser_and_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = folder.path();
        std::fs::write(page.join("index.html"), "").expect("written");
        let pids = page.join("pids");
        let script = format!("#!/bin/sh\nsleep 1000 &\necho $! > {0}.part\nmv {0}.part {0}\nwait\n", pids.display());
        let browser = page.join("fake-browser");
        std::fs::write(&browser, script).expect("written");
        std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        let options = BrowserOptions { browser: Some(browser), page: Some(page.to_owned()), ..Default::default() };
        let begun = Instant::now();
        run(&options, &Spec::default(), Mode::Verify, &mut |_| {
            if pids.exists() || begun.elapsed().as_secs() > 20 { Flow::Stop } else { Flow::Continue }
        })
        .expect("stopped");
        let child: i32 = std::fs::read_to_string(&pids).expect("a child").trim().parse().expect("a number");
        let alive = || {
            // A killed child may stay as a zombie until whoever adopts it collects it.
            std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
        };
        let killed = Instant::now();
        while alive() && killed.elapsed().as_secs() < 5 {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!alive(), "the browser's child outlived the run");
    }
}

//! Targets `browser` and `wasm`: serves the page to a browser on this machine, and receives its events.
//!
//! The page runs by itself and posts every event. Finished records therefore survive the end of the browser.

pub(crate) mod address;
mod attempt;
pub(crate) mod body;
mod chromium;
pub(crate) mod connections;
mod energy;
mod evaluation;
mod events;
mod family;
mod firefox;
mod jobs;
mod kernels;
mod page;
mod process;
pub(crate) mod server;
mod tls;
pub(crate) mod token;
mod webdriver;

pub use attempt::run;
pub use evaluation::evaluate;
pub use family::{ALL, Family, all};
pub use page::{Page, find as find_page};
pub use process::{is_root, version};

use std::path::PathBuf;
use std::time::Duration;

use parallax_schema::device::{BrowserMode, DeviceInfo};
use parallax_schema::session::Mode;
use parallax_schema::spec::{Spec, query};
use parallax_schema::units::Nanos;

use crate::files::NoTemporary;

/// Options of a run in a browser.
#[derive(Debug, Clone, Default)]
pub struct BrowserOptions {
    /// Executable of the browser; else `PARALLAX_BROWSER`, else the first that is found.
    pub browser: Option<PathBuf>,
    /// Additional flags for the browser.
    pub flags: Vec<String>,
    /// Additional environment variables for the browser.
    pub environment: Vec<(String, String)>,
    /// Reason for which the browser may use another GPU than the requested one.
    pub doubt: Option<String>,
    /// Name of the machine's only GPU, which the page may not know.
    pub card: Option<String>,
    /// Whether the browser uses its software adapter, for machines without a GPU and for tests.
    pub software: bool,
    /// Browser mode of the page, unless a flag in `flags` gives more.
    pub reach: BrowserMode,
    /// Target that the page measures.
    pub target: PageTarget,
    /// Number of processor threads of the page; all by default.
    pub threads: Option<usize>,
    /// Folder of kernel sources in WGSL that replace the page's own.
    pub kernels: Option<PathBuf>,
    /// Folder of the built page; else `PARALLAX_PAGE`, else the embedded page, else `dist` in the usual folders.
    pub page: Option<PathBuf>,
}

impl BrowserOptions {
    /// Returns a warning if the page runs on this emulated device on a machine with a GPU.
    pub fn passes_by(&self, device: &DeviceInfo) -> Option<String> {
        let wanted = self.software || self.flags.iter().any(|flag| flag.contains("swiftshader"));
        (self.target == PageTarget::Browser && device.kind.is_emulated() && !wanted).then(|| {
            let remedy = self.family().gpu_remedy();
            format!("the browser computes on {}, although this machine has a GPU; {remedy}", device.name)
        })
    }

    /// Returns the options with flags for Vulkan, where a browser may miss the GPU without them: Chromium on Linux, on a
    /// machine with a GPU.
    fn through_vulkan(&self) -> Option<BrowserOptions> {
        let misses = cfg!(target_os = "linux") && self.target == PageTarget::Browser && !self.software;
        let given =
            self.flags.iter().any(|flag| chromium::VULKAN.contains(&flag.as_str()) || flag.contains("swiftshader"));
        (misses && !given && self.family() == Family::Chromium).then(|| {
            let flags = self.flags.iter().cloned().chain(chromium::VULKAN.map(str::to_owned)).collect();
            BrowserOptions { flags, ..self.clone() }
        })
    }

    /// Returns the family of the browser; that of Chromium if none is found.
    pub fn family(&self) -> Family {
        executable(self).map_or(Family::Chromium, |path| Family::of(&path))
    }

    /// Returns the flags or preferences of the browser's start, for a person.
    pub fn start_in_words(&self) -> String {
        match self.family() {
            Family::Chromium => chromium::flags(self).join(" "),
            Family::Firefox => firefox::of_mode(self.reach),
            Family::Safari => String::new(),
        }
    }
}

/// Target of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageTarget {
    /// GPU, through WebGPU.
    #[default]
    Browser,
    /// Processor, through WebAssembly in the page.
    Wasm,
}

impl PageTarget {
    /// Returns the name in flags, URLs and records.
    pub const fn name(self) -> &'static str {
        match self {
            PageTarget::Browser => "browser",
            PageTarget::Wasm => "wasm",
        }
    }
}

/// Environment variable with the browser's executable, the default of the option.
pub const BROWSER: &str = "PARALLAX_BROWSER";
/// Environment variable with the folder of the built page, the default of the option.
pub const PAGE: &str = "PARALLAX_PAGE";

/// Error of a run in a browser. Records that arrived before the error remain valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// No folder with a built page.
    #[error(
        "the page is not built: no index.html in {looked}; build it with `./x page`, or name its folder with PARALLAX_PAGE"
    )]
    NoPage {
        /// Searched places.
        looked: String,
    },
    /// Page without the program for models.
    #[error("the page in {page} has no program for models; build it again with `./x page`")]
    NoModels {
        /// Place of the page.
        page: String,
    },
    /// No browser.
    #[error(
        "no browser: looked for {looked}; install Chrome or Chromium, or name one with --browser PATH or PARALLAX_BROWSER"
    )]
    NoBrowser {
        /// Searched names.
        looked: String,
    },
    /// Two options that exclude each other.
    #[error(
        "browsers offer their software adapter to developers only, with an exact clock: --features stock needs a GPU"
    )]
    StockSoftware,
    /// Failed start of the browser.
    #[error("{browser} does not start: {why}")]
    Start {
        /// Path of the executable.
        browser: PathBuf,
        /// Error of the system.
        why: std::io::Error,
    },
    /// No folder for the browser's profile.
    #[error(transparent)]
    NoTemporary(#[from] NoTemporary),
    /// Failure of a browser's driver.
    #[error("{browser} does not open the page: {why}{said}")]
    Undriven {
        /// Path of the executable.
        browser: PathBuf,
        /// The reason.
        why: String,
        /// Last lines of the browser's log, one per line.
        said: String,
    },
    /// End of the browser before the end of the run.
    #[error("the browser ended early ({status}){said}")]
    Died {
        /// Exit status.
        status: String,
        /// Last lines of the browser's log, one per line.
        said: String,
    },
    /// No event from a running browser.
    #[error("no message from the page for {seconds} s{said}")]
    Silent {
        /// Length of the silence in seconds.
        seconds: u64,
        /// Last lines of the browser's log, one per line.
        said: String,
    },
    /// Failure of a page that computes a model.
    #[error("the page cannot compute the model: {0}")]
    Failed(String),
    /// Request to end.
    #[error("stopped on request: there are no scores")]
    Stopped,
    /// Failed start of the page's server.
    #[error("the page cannot be served on this machine: {0}")]
    Serve(String),
}

/// Tolerated silence of a page beyond the sampling time of one case.
const PATIENCE: Duration = Duration::from_secs(120);
/// Factor by which a case may exceed its share of the budget. The runner's stop rule enforces it.
const OVERRUN: f64 = 3.0;

/// Returns the page of a run.
pub fn page(options: &BrowserOptions) -> Result<Page, BrowserError> {
    page::find(options.page.as_deref())
}

/// Returns the browser executable of a run.
pub fn executable(options: &BrowserOptions) -> Result<PathBuf, BrowserError> {
    family::find(options.browser.as_deref())
}

/// Checks that a run can start. Returns the executable of its browser, or the missing part.
pub fn ready(options: &BrowserOptions) -> Result<PathBuf, BrowserError> {
    page(options)?;
    let executable = executable(options)?;
    if options.reach == BrowserMode::Stock && options.software && Family::of(&executable) == Family::Chromium {
        return Err(BrowserError::StockSoftware);
    }
    Ok(executable)
}

/// Upper bound on the time of one case.
const DAY: Duration = Duration::from_secs(86_400);

/// Returns the longest silence without an error.
fn patience(spec: &Spec) -> Duration {
    // The page makes the plan, so the number of cases is unknown here. One case is assumed to have the whole budget.
    PATIENCE + Nanos::from_secs(OVERRUN * spec.budget).duration().min(DAY)
}

/// Returns the page's query: target, mode, spec, and the URL for events with its token.
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
    use std::time::Instant;

    use super::attempt::without_gpu;
    use super::*;
    use parallax_engine::measure::runner::Flow;
    use parallax_schema::device::DeviceKind;
    use parallax_schema::record::Event;

    #[test]
    fn an_emulation_beside_a_gpu_is_a_warning() {
        let device = |kind| {
            let mut device = parallax_schema::testing::run("browser", "SwiftShader", &[]).devices.remove(0);
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

    #[cfg(unix)]
    #[test]
    fn a_browser_that_misses_the_gpu_is_started_again_with_vulkan() {
        let folder = crate::files::temporary_folder("parallax-test-").expect("a folder");
        let named = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").expect("writable");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its owner");
            BrowserOptions { browser: Some(path), ..BrowserOptions::default() }
        };
        let chromium = named("chromium");
        let again = chromium.through_vulkan();
        assert_eq!(again.is_some(), cfg!(target_os = "linux"));
        let given = BrowserOptions { flags: vec![chromium::VULKAN[0].to_owned()], ..chromium.clone() };
        let software = BrowserOptions { software: true, ..chromium.clone() };
        let wasm = BrowserOptions { target: PageTarget::Wasm, ..chromium.clone() };
        let firefox = named("firefox");
        for other in [given, software, wasm, firefox] {
            assert!(other.through_vulkan().is_none(), "{other:?}");
        }
        let run = |kind| {
            let mut run = parallax_schema::testing::run("browser", "x", &[]);
            run.devices[0].kind = kind;
            Event::Begin { run: Box::new(run) }
        };
        assert!(without_gpu(&run(DeviceKind::Software)) && !without_gpu(&run(DeviceKind::Discrete)));
        let none = parallax_shaders::Unavailable::NoAdapter(String::new()).to_string();
        assert!(without_gpu(&Event::Unavailable { reason: none }));
        assert!(!without_gpu(&Event::Unavailable { reason: "no case matches".to_owned() }));
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

    /// Runs a shell script in place of a browser.
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
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exit\nsleep 1000 &\necho $! > {0}.part\nmv {0}.part {0}\nwait\n",
            pids.display()
        );
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
            // A killed child may stay as a zombie until its adoptive parent collects it.
            std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
        };
        let killed = Instant::now();
        while alive() && killed.elapsed().as_secs() < 5 {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!alive(), "the browser's child outlived the run");
    }
}

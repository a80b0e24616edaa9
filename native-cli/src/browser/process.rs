//! Process of a browser, with a profile of its own: its start at a page, and its end with all child processes.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parallax_schema::device::BrowserMode;
use parallax_schema::record::BROWSER_VERSION;
use tempfile::TempDir;

use super::family::Family;
use super::webdriver::{WebDriver, free_port};
use super::{BrowserError, BrowserOptions, chromium, firefox};
use crate::files;

/// Running browser. Dropping it ends the browser and removes the profile.
pub struct Browser {
    executable: PathBuf,
    family: Family,
    reach: BrowserMode,
    /// Version of a browser without a driver that names it.
    version: Option<String>,
    child: Child,
    profile: TempDir,
    /// Session of a driver, for families without a flag for the page. Its end closes the page.
    session: Option<Session>,
}

/// Session of a browser's driver.
enum Session {
    /// WebDriver BiDi.
    BiDi(Box<firefox::Session>),
    /// WebDriver over HTTP.
    Classic(WebDriver),
}

/// File in the profile's folder for the output of the browser.
const LOG: &str = "parallax-browser.log";

/// Maximum number of lines of that file in an error message.
const LAST_LINES: usize = 8;

/// Longest time from the start of a browser to its readiness for a driver.
const READY: Duration = Duration::from_secs(60);
/// Interval between looks at a starting browser.
const LOOK: Duration = Duration::from_millis(20);

impl Browser {
    /// Starts a browser at a page.
    ///
    /// # Errors
    /// A browser that does not start, or a driver that does not take the page.
    pub fn start(executable: &Path, options: &BrowserOptions, url: &str) -> Result<Browser, BrowserError> {
        let family = Family::of(executable);
        // Before the run, which another process would disturb.
        let version = if family == Family::Chromium { version(executable) } else { None };
        let not_started = |why| BrowserError::Start { browser: executable.to_owned(), why };
        let port = if family == Family::Safari { free_port().map_err(not_started)? } else { 0 };
        let profile = files::temporary_folder("parallax-browser-")?;
        let mut command = Command::new(executable);
        command.envs(options.environment.iter().cloned());
        match family {
            Family::Chromium => {
                command.args(chromium::FLAGS).arg(format!("--user-data-dir={}", profile.path().display()));
                command.args(chromium::flags(options)).arg(url);
            }
            Family::Firefox => {
                firefox::write_preferences(profile.path(), options.reach).map_err(|e| files::no_temporary(&e))?;
                command.args(firefox::FLAGS).arg("--profile").arg(profile.path()).args(&options.flags);
            }
            Family::Safari => {
                command.arg("--port").arg(port.to_string()).args(&options.flags);
            }
        }
        let log = File::create(profile.path().join(LOG)).map_err(|error| files::no_temporary(&error))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        log::debug!("starting {command:?}");
        let child = command.spawn().map_err(not_started)?;
        let mut browser = Browser {
            executable: executable.to_owned(),
            family,
            reach: options.reach,
            version,
            child,
            profile,
            session: None,
        };
        browser.session = match family {
            Family::Chromium => None,
            Family::Firefox => {
                let address = browser.until(firefox::address)?;
                let session = firefox::Session::open(&address, url).map_err(|why| browser.undriven(why))?;
                Some(Session::BiDi(Box::new(session)))
            }
            Family::Safari => {
                let address = format!("127.0.0.1:{port}");
                browser.until(|_| TcpStream::connect(&address).ok())?;
                let session = WebDriver::new(&address).map_err(|why| browser.undriven(why))?;
                session.open(url).map_err(|why| browser.undriven(why))?;
                Some(Session::Classic(session))
            }
        };
        Ok(browser)
    }

    /// Waits until a look at the browser's log finds something.
    fn until<T>(&mut self, look: impl Fn(&str) -> Option<T>) -> Result<T, BrowserError> {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(&self.log()) {
                return Ok(found);
            }
            if let Some(status) = self.ended() {
                return Err(BrowserError::Died { status, said: self.last_words() });
            }
            if begun.elapsed() > READY {
                return Err(self.undriven(format!("its driver is not ready after {} s", READY.as_secs())));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn undriven(&self, why: String) -> BrowserError {
        BrowserError::Undriven { browser: self.executable.clone(), why, said: self.last_words() }
    }

    /// Returns facts about the browser for a run's environment: version, engine, preferences.
    pub fn facts(&self) -> Vec<(String, String)> {
        let version = match &self.session {
            Some(Session::BiDi(session)) => Some(session.version().to_owned()),
            Some(Session::Classic(session)) => Some(session.version().to_owned()),
            None => self.version.clone(),
        };
        let preferences = (self.family == Family::Firefox).then(|| firefox::of_mode(self.reach));
        let engine = Some(self.family.engine().to_owned());
        [(BROWSER_VERSION, version), ("browser_engine", engine), ("browser_preferences", preferences)]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// Returns the exit status of the browser, if it has ended.
    pub fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.profile.path().join(LOG)).unwrap_or_default()).into_owned()
    }

    /// Returns the last lines of the browser's log, one per line; empty without output.
    pub fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        if last.is_empty() { String::new() } else { format!("; it last said:\n  {}", last.join("\n  ")) }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Safari is no child of its driver.
        if let Some(Session::Classic(session)) = &self.session {
            session.close();
        }
        end_group(&self.child);
        // Both calls fail only after the browser has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Child processes of the browser may write to the profile for a moment while they end.
        for _ in 0..20 {
            if std::fs::remove_dir_all(self.profile.path()).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Longest wait for a version line.
const VERSION: Duration = Duration::from_secs(3);

/// Returns the version line of an executable; none on Windows, where the flag opens a window, and of one that does not end.
pub fn version(executable: &Path) -> Option<String> {
    if cfg!(windows) {
        return None;
    }
    let mut command = Command::new(executable);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().ok()?;
    let begun = Instant::now();
    while let Ok(None) = child.try_wait() {
        if begun.elapsed() > VERSION {
            end_group(&child);
            // It has ended, or cannot be ended.
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(LOOK);
    }
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (text.lines().count() == 1).then_some(text)
}

/// Returns whether this program runs as root.
#[cfg(unix)]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns whether this program runs as root.
#[cfg(not(unix))]
pub fn is_root() -> bool {
    false
}

/// Ends the browser and its child processes.
#[cfg(unix)]
fn end_group(child: &Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: the child leads a process group of its own. Either it has not been waited for since its last check,
        // or its group is empty and the call fails, which is harmless.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Ends the browser and its child processes.
#[cfg(windows)]
fn end_group(child: &Child) {
    let id = child.id().to_string();
    let quiet = |c: &mut Command| c.stdout(Stdio::null()).stderr(Stdio::null()).status();
    // Without taskkill, the caller still ends the browser itself.
    let _ = quiet(Command::new("taskkill").args(["/T", "/F", "/PID", &id]));
}

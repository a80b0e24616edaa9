//! Discovery of a browser, its start without a window and with an empty profile, and its end with all child processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use parallax_schema::device::BrowserMode;
use tempfile::TempDir;

use super::{BROWSER, BrowserError, BrowserOptions};
use crate::files;

/// Executables on the search path. Only browsers of the Chromium family accept these flags.
const NAMES: [&str; 8] = [
    "google-chrome",
    "google-chrome-stable",
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "microsoft-edge",
    "msedge",
    "chrome",
];

/// Paths of applications on macOS and Windows, where they are not on the search path.
const PLACES: [&str; 6] = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
];

/// Flags of every start: no window, no traffic of the browser itself, no throttling.
const FLAGS: [&str; 13] = [
    "--headless",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-quic",
    "--metrics-recording-only",
    "--mute-audio",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
];

/// Enables the WebGPU of a stock visitor, on platforms where it is behind a flag.
const VISITOR: &str = "--enable-features=WebGPUService";
/// Disables the rounding of timestamps, and exposes the device's name. Every run records the measured resolution of the
/// clock.
const DEVELOPER: &str = "--enable-webgpu-developer-features";
/// Enables features that no page should have, among them software adapters.
const UNSAFE: &str = "--enable-unsafe-webgpu";
/// Toggles of Dawn for matrix operations: experimental features, f16 on drivers that Dawn distrusts, and the memory
/// model of their definition.
const MATRICES: &str = "--enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia,use_vulkan_memory_model";

/// Returns the executable of the browser.
pub fn find(asked: Option<&Path>) -> Result<PathBuf, BrowserError> {
    let named = asked.map(Path::to_owned).or_else(|| std::env::var_os(BROWSER).map(PathBuf::from));
    if let Some(named) = named {
        // A bare name is looked up on the search path, as in a shell.
        let found = which::which(&named).ok();
        return found.ok_or_else(|| BrowserError::NoBrowser { looked: named.display().to_string() });
    }
    let on_path = NAMES.iter().find_map(|name| which::which(name).ok());
    let installed = || PLACES.iter().map(PathBuf::from).find(|p| p.is_file());
    on_path.or_else(installed).ok_or_else(|| BrowserError::NoBrowser {
        looked: format!("{} on the PATH and the usual places of applications", NAMES.join(", ")),
    })
}

/// Returns the flags that depend on the browser mode and on the user's privileges.
pub fn flags(options: &BrowserOptions) -> Vec<String> {
    let mut flags = options.flags.clone();
    let of_reach: &[&str] = match options.reach {
        BrowserMode::Stock => &[VISITOR],
        BrowserMode::Developer => &[VISITOR, DEVELOPER],
        BrowserMode::Unsafe => &[VISITOR, DEVELOPER, UNSAFE, MATRICES],
    };
    let of_software: &[&str] = if options.software { &[UNSAFE, "--use-webgpu-adapter=swiftshader"] } else { &[] };
    let more = of_reach.iter().chain(of_software).filter(|flag| !options.flags.iter().any(|given| given == *flag));
    flags.extend(more.map(|flag| (*flag).to_owned()));
    if is_root() {
        // The sandbox refuses to start for root, the usual user in containers.
        flags.push("--no-sandbox".to_owned());
    }
    merge_features(&flags)
}

/// Running browser with a profile of its own. Dropping it ends the browser and removes the profile.
pub struct Browser {
    child: Child,
    profile: TempDir,
}

/// File in the profile's folder for the output of the browser.
const LOG: &str = "parallax-browser.log";

/// Maximum number of lines of that file in an error message.
const LAST_LINES: usize = 8;

impl Browser {
    /// Starts a browser at a page.
    pub fn start(executable: &Path, options: &BrowserOptions, url: &str) -> Result<Browser, BrowserError> {
        let profile = files::temporary_folder("parallax-browser-")?;
        let log = File::create(profile.path().join(LOG)).map_err(|error| files::no_temporary(&error))?;
        let mut command = Command::new(executable);
        command.envs(options.environment.iter().cloned());
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.path().display()));
        command.args(flags(options)).arg(url);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        log::debug!("starting {command:?}");
        let child = command.spawn().map_err(|why| BrowserError::Start { browser: executable.to_owned(), why })?;
        Ok(Browser { child, profile })
    }

    /// Returns the exit status of the browser, if it has ended.
    pub fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Returns the last lines of the browser's log, one per line; empty without output.
    pub fn last_words(&self) -> String {
        let log = std::fs::read(self.profile.path().join(LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        if last.is_empty() { String::new() } else { format!("; it last said:\n  {}", last.join("\n  ")) }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
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

/// Merges several `--enable-features=` flags into one, because a browser uses only the last. The order is otherwise
/// kept.
fn merge_features(flags: &[String]) -> Vec<String> {
    const MERGED: [&str; 3] = ["--enable-features=", "--disable-features=", "--enable-dawn-features="];
    let mut merged: Vec<String> = Vec::new();
    for flag in flags {
        let prefix = MERGED.iter().find(|p| flag.starts_with(**p));
        let earlier = prefix.and_then(|p| merged.iter_mut().find(|m| m.starts_with(*p)).zip(Some(p)));
        match earlier {
            Some((earlier, prefix)) => {
                earlier.push(',');
                earlier.push_str(&flag[prefix.len()..]);
            }
            None => merged.push(flag.clone()),
        }
    }
    merged
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_lists_are_joined_and_nothing_else_changes() {
        let flags =
            ["--enable-features=A", "--x", "--enable-features=B,C", "--enable-dawn-features=d"].map(str::to_owned);
        assert_eq!(merge_features(&flags), ["--enable-features=A,B,C", "--x", "--enable-dawn-features=d"]);
    }

    #[test]
    fn only_who_asks_for_experiments_gets_their_flags() {
        let of = |reach, software| {
            let options = BrowserOptions { reach, software, ..BrowserOptions::default() };
            flags(&options).into_iter().filter(|flag| flag != "--no-sandbox").collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(BrowserMode::Stock, false), VISITOR);
        assert_eq!(of(BrowserMode::Developer, false), format!("{VISITOR} {DEVELOPER}"));
        assert_eq!(of(BrowserMode::Unsafe, false), format!("{VISITOR} {DEVELOPER} {UNSAFE} {MATRICES}"));
        let software = "--use-webgpu-adapter=swiftshader";
        assert_eq!(of(BrowserMode::Developer, true), format!("{VISITOR} {DEVELOPER} {UNSAFE} {software}"));
    }

    #[test]
    fn an_unknown_browser_is_named_in_the_error() {
        let error = find(Some(Path::new("no-such-browser"))).expect_err("absent").to_string();
        assert!(error.contains("no-such-browser") && error.contains("--browser"), "{error}");
    }
}

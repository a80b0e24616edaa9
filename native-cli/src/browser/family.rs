//! Families of browsers: names, executables, and the discovery of both.

use std::path::{Path, PathBuf};

use super::{BROWSER, BrowserError};

/// Browsers that share an engine, and so the way of their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Chromium, Chrome, Edge: Dawn. Flags start it at a page.
    Chromium,
    /// Firefox: wgpu and naga. Preferences of a profile and WebDriver BiDi start it at a page.
    Firefox,
    /// Safari: WebKit. `safaridriver` starts it at a page.
    Safari,
}

impl Family {
    /// Returns the family of an executable, by its file name. An unknown name takes the flags of Chromium.
    pub fn of(executable: &Path) -> Family {
        let has = |path: &Path, word: &str| {
            path.file_stem().is_some_and(|name| name.to_string_lossy().to_lowercase().contains(word))
        };
        let target = std::fs::canonicalize(executable);
        let named = |word: &str| has(executable, word) || target.as_deref().is_ok_and(|target| has(target, word));
        match () {
            () if named("firefox") => Family::Firefox,
            () if named("safaridriver") => Family::Safari,
            () => Family::Chromium,
        }
    }

    /// Returns the implementation of WebGPU.
    pub fn engine(self) -> &'static str {
        match self {
            Family::Chromium => "Dawn",
            Family::Firefox => "wgpu (naga)",
            Family::Safari => "WebKit",
        }
    }

    /// Returns the first major version with WebGPU.
    pub fn webgpu_since(self) -> u32 {
        match self {
            Family::Chromium => 113,
            Family::Firefox => 141,
            Family::Safari => 26,
        }
    }

    /// Returns the first major version with SIMD in WebAssembly.
    pub fn simd_since(self) -> u32 {
        match self {
            Family::Chromium => 91,
            Family::Firefox => 89,
            Family::Safari => 17,
        }
    }

    /// Returns the remedy for a page that has no GPU, or an emulated one.
    pub fn gpu_remedy(self) -> &'static str {
        match self {
            Family::Chromium => {
                "on Linux, `run` tries Vulkan by itself (--enable-features=Vulkan --use-angle=vulkan \
                 --disable-vulkan-surface); chrome://gpu in this browser says why"
            }
            Family::Firefox => "about:support in this browser says why",
            Family::Safari => "update macOS, or use another browser",
        }
    }
}

/// One browser by name: executables on the search path, and paths of applications on macOS and Windows.
struct Known {
    name: &'static str,
    executables: &'static [&'static str],
    applications: &'static [&'static str],
}

/// Browsers by name, in the order of the search without a name.
const KNOWN: [Known; 5] = [
    Known {
        name: "chrome",
        executables: &["google-chrome", "google-chrome-stable", "chrome"],
        applications: &[
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
            r"C:\Program Files\Google\Chrome\Application\chrome.exe",
            r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
        ],
    },
    Known {
        name: "chromium",
        executables: &["chromium", "chromium-browser", "chromium-headless-shell"],
        applications: &["/Applications/Chromium.app/Contents/MacOS/Chromium"],
    },
    Known {
        name: "edge",
        executables: &["microsoft-edge", "msedge"],
        applications: &[
            "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
            r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
        ],
    },
    Known {
        name: "firefox",
        executables: &["firefox", "firefox-esr"],
        applications: &[
            "/Applications/Firefox.app/Contents/MacOS/firefox",
            r"C:\Program Files\Mozilla Firefox\firefox.exe",
        ],
    },
    Known { name: "safari", executables: &["safaridriver"], applications: &["/usr/bin/safaridriver"] },
];

/// Name that stands for each browser of the machine.
pub const ALL: &str = "all";

impl Known {
    fn find(&self) -> Option<PathBuf> {
        let on_path = self.executables.iter().find_map(|name| which::which(name).ok());
        on_path.or_else(|| self.applications.iter().map(PathBuf::from).find(|path| path.is_file()))
    }
}

/// Returns the executable of a browser: of a name, of a path, or the first that is found. Without a name, Safari is left out,
/// because its driver opens windows.
///
/// # Errors
/// No such browser.
pub fn find(asked: Option<&Path>) -> Result<PathBuf, BrowserError> {
    let named = asked.map(Path::to_owned).or_else(|| std::env::var_os(BROWSER).map(PathBuf::from));
    let Some(named) = named else {
        let usual = KNOWN.iter().filter(|known| known.name != "safari");
        let names: Vec<&str> = usual.clone().flat_map(|known| known.executables).copied().collect();
        return usual.filter_map(Known::find).next().ok_or_else(|| BrowserError::NoBrowser {
            looked: format!("{} on the PATH and the usual places of applications", names.join(", ")),
        });
    };
    let known = KNOWN.iter().find(|known| named == Path::new(known.name));
    // Another bare name is looked up on the search path, as in a shell.
    let found = known.and_then(Known::find).or_else(|| which::which(&named).ok());
    found.ok_or_else(|| BrowserError::NoBrowser {
        looked: match known {
            Some(known) => {
                format!("{} on the PATH and the usual places of {}", known.executables.join(", "), known.name)
            }
            None => named.display().to_string(),
        },
    })
}

/// Returns the executable of each browser of the machine, one per engine and vendor.
///
/// # Errors
/// No browser at all.
pub fn all() -> Result<Vec<PathBuf>, BrowserError> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in KNOWN.iter().filter_map(Known::find) {
        // Distributions install one browser under several names.
        let same = |other: &PathBuf| std::fs::canonicalize(other).ok() == std::fs::canonicalize(&path).ok();
        if !found.iter().any(same) {
            found.push(path);
        }
    }
    match found.is_empty() {
        true => find(None).map(|path| vec![path]),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_decides_the_family() {
        for (path, family) in [
            ("/usr/bin/firefox-esr", Family::Firefox),
            (r"/Applications/Firefox.app/Contents/MacOS/firefox", Family::Firefox),
            ("/opt/firefox/wrapper.sh", Family::Chromium),
            ("/usr/bin/safaridriver", Family::Safari),
            ("chromium", Family::Chromium),
            ("/tmp/fake-browser", Family::Chromium),
        ] {
            assert_eq!(Family::of(Path::new(path)), family, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_firefox_is_firefox() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("firefox-nightly"), folder.path().join("browser"));
        std::fs::write(&target, "").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        assert_eq!(Family::of(&link), Family::Firefox);
    }

    #[test]
    fn an_unknown_browser_is_named_in_the_error() {
        let error = find(Some(Path::new("no-such-browser"))).expect_err("absent").to_string();
        assert!(error.contains("no-such-browser") && error.contains("--browser"), "{error}");
    }
}

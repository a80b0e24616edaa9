//! The browser of a run, by its user agent.

use super::{BROWSER_VERSION, Run};

/// Browsers by their mark in a user agent, the more special ones first: most also name Chrome and Safari.
pub(super) const BROWSERS: [(&str, &str); 7] = [
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("HeadlessChrome/", "Chromium"),
    ("Chrome/", "Chromium"),
    ("Version/", "Safari"),
];

/// Operating systems by their mark, the more special ones first.
const SYSTEMS: [(&str, &str); 7] = [
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iOS"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
];

impl Run {
    /// Returns the browser with its version, in full where it stated that; `None` outside a browser or in an unknown one.
    pub fn browser_in_full(&self) -> Option<String> {
        self.environment.get(BROWSER_VERSION).filter(|version| !version.is_empty()).cloned().or_else(|| self.browser())
    }

    /// Returns browser, major version and operating system, as in `Chromium 156 on Linux`; `None` outside a browser or in an
    /// unknown one.
    pub fn browser(&self) -> Option<String> {
        let agent = self.environment.get("user_agent")?;
        let (name, version) = BROWSERS.iter().find_map(|(mark, name)| {
            let after = agent.split_once(mark)?.1;
            let digits: String = after.chars().take_while(char::is_ascii_digit).take(4).collect();
            (!digits.is_empty()).then_some((name, digits))
        })?;
        let system = SYSTEMS.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, system)| format!(" on {system}"));
        Some(format!("{name} {version}{}", system.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::run;

    #[test]
    fn a_user_agent_names_browser_and_system() {
        let chrome = "(KHTML, like Gecko) Chrome/156.0.0.0";
        for (agent, want) in [
            (
                format!("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 {chrome} Safari/537.36"),
                "Chromium 156 on Linux",
            ),
            (format!("Mozilla/5.0 (Windows NT 10.0; Win64) {chrome} Safari/537.36 Edg/155.0.1"), "Edge 155 on Windows"),
            (format!("Mozilla/5.0 (Linux; Android 10; K) {chrome} Mobile Safari/537.36"), "Chromium 156 on Android"),
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0".to_owned(),
                "Firefox 153 on Linux",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/26.1 Safari/605.1.15"
                    .to_owned(),
                "Safari 26 on macOS",
            ),
            ("HeadlessChrome/156.0.8078.79".to_owned(), "Chromium 156"),
        ] {
            let mut run = run("browser", "X", &[]);
            run.environment.insert("user_agent".to_owned(), agent);
            assert_eq!(run.browser().as_deref(), Some(want));
        }
        let mut run = run("cuda", "X", &[]);
        assert_eq!(run.browser(), None);
        run.environment.insert("user_agent".to_owned(), "Chrome/<b>".to_owned());
        assert_eq!(run.browser(), None);
    }
}

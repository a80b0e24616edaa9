//! Route of a run to the hardware.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BROWSERS, CUDA_ARITHMETIC, Run, WGSL_CHECKS};
use crate::device::BrowserMode;

/// Browsers whose WebGPU is not Chromium's Dawn.
const OTHER_ENGINES: [&str; 2] = ["Firefox", "Safari"];

/// Route of a run to the hardware: its target, and the properties that tell runs of one target apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Target.
    pub target: String,
    /// Checks that kernels keep on a native target, as in `all` or `bounds, loops`; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<String>,
    /// Precision of compiled arithmetic on CUDA, as in `fast`; absent for precise arithmetic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<String>,
    /// Browser with another WebGPU than Chromium's; absent for Chromium, its relatives and unknown browsers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
    /// Browser mode, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<BrowserMode>,
}

impl Route {
    /// Returns a name with the properties of the route, as in `browser (unsafe)`, `Firefox (stock)` or `wgpu (checks: all)`.
    pub fn titled(&self, name: &str) -> String {
        let checks = self.checks.as_ref().map(|checks| format!("checks: {checks}"));
        let arithmetic = self.arithmetic.as_ref().map(|arithmetic| format!("arithmetic: {arithmetic}"));
        let properties = [self.browser.clone(), checks, arithmetic, self.reach.map(|reach| reach.name().to_owned())];
        let properties: Vec<String> = properties.into_iter().flatten().filter(|property| property != name).collect();
        if properties.is_empty() { name.to_owned() } else { format!("{name} ({})", properties.join(", ")) }
    }

    /// Returns the route without the browser mode: runs in several modes are of one engine.
    pub fn engine(&self) -> Route {
        Route { reach: None, ..self.clone() }
    }
}

impl Run {
    /// Returns the route of the run.
    pub fn route(&self) -> Route {
        let agent = self.environment.get("user_agent");
        let browser = agent.and_then(|agent| BROWSERS.iter().find(|(mark, _)| agent.contains(mark)));
        let browser = browser.map(|(_, name)| *name).filter(|name| OTHER_ENGINES.contains(name));
        Route {
            target: self.target.clone(),
            checks: self.checks().map(str::to_owned),
            arithmetic: self.arithmetic().map(str::to_owned),
            browser: browser.map(str::to_owned),
            reach: self.reach,
        }
    }

    /// Returns the target with the properties of the route, as in `browser (unsafe)` or `wgpu (checks: all)`.
    pub fn way(&self) -> String {
        self.route().titled(&self.target)
    }

    /// Returns the checks that kernels kept on a native target, as in `all` or `bounds, loops`; `None` without any.
    pub fn checks(&self) -> Option<&str> {
        self.named(WGSL_CHECKS)
    }

    /// Returns the precision of compiled arithmetic on CUDA, as in `fast`; `None` for precise arithmetic.
    pub fn arithmetic(&self) -> Option<&str> {
        self.named(CUDA_ARITHMETIC)
    }

    /// Whether its kernels were compiled as by default: without checks, and with precise arithmetic.
    pub fn compiled_as_usual(&self) -> bool {
        self.checks().is_none() && self.arithmetic().is_none()
    }

    /// Returns plain names of the environment.
    fn named(&self, key: &str) -> Option<&str> {
        let plain = |text: &&str| text.len() < 64 && text.chars().all(|c| c.is_ascii_lowercase() || ", ".contains(c));
        self.environment.get(key).map(String::as_str).filter(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    #[test]
    fn a_route_tells_browsers_modes_and_checks_apart() {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
        let chromium = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/156.0.0.0 Safari/537.36";
        let stock = Some(BrowserMode::Stock);
        for (target, agent, checks, reach, want) in [
            ("cuda", None, None, None, "cuda"),
            ("wgpu", None, Some("all"), None, "wgpu (checks: all)"),
            ("wgpu", None, Some("<b>"), None, "wgpu"),
            ("browser", Some(chromium), None, stock, "browser (stock)"),
            ("browser", Some(firefox), None, stock, "browser (Firefox, stock)"),
            ("browser", Some(firefox), None, None, "browser (Firefox)"),
            ("browser", None, None, Some(BrowserMode::Unsafe), "browser (unsafe)"),
        ] {
            let mut run = run(target, "X", &[]);
            run.reach = reach;
            let facts = [("user_agent", agent), (WGSL_CHECKS, checks)];
            run.environment
                .extend(facts.into_iter().filter_map(|(key, fact)| Some((key.to_owned(), fact?.to_owned()))));
            assert_eq!(run.way(), want);
            let json = serde_json::to_string(&run.route()).expect("JSON");
            assert_eq!(serde_json::from_str::<Route>(&json).expect("read"), run.route(), "{json}");
        }
        let mut fast = run("cuda", "X", &[]);
        assert!(fast.compiled_as_usual());
        fast.environment.insert(CUDA_ARITHMETIC.to_owned(), "fast".to_owned());
        assert_eq!((fast.way().as_str(), fast.compiled_as_usual()), ("cuda (arithmetic: fast)", false));
        let route = Route { browser: Some("Firefox".to_owned()), reach: stock, ..Route::default() };
        assert_eq!(
            (route.titled("Firefox"), route.engine().titled("x")),
            ("Firefox (stock)".into(), "x (Firefox)".into())
        );
    }
}

//! The URL query: a spec with the keys of the command line, plus eight keys of the page.

use parallax_protocol::target::{Target, TargetConfig};
use parallax_schema::device::BrowserMode;
use parallax_schema::session::Mode;
use parallax_schema::spec::{Spec, query};

/// Request of a URL.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Spec, or the mistake in the query.
    pub spec: Result<Spec, String>,
    /// `mode`: time the cases, or only verify them.
    pub mode: Mode,
    /// `target`, `features` and `threads`: the target configuration.
    pub way: TargetConfig,
    /// `report`: path of the same server to post events to. The run starts at once if the server takes them.
    pub report: Option<String>,
    /// `kernels`: path of the same server with kernel sources that replace the page's own.
    pub kernels: Option<String>,
    /// `desk`: token of the collector that hosts the page. It is a secret and never written.
    pub collector: Option<String>,
}

/// Returns whether a string is a path of a server. Browsers drop tabs and ends of lines from addresses, and take `\` for `/`. A
/// string with one of them may be the address of another host.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.starts_with("//") && text.chars().all(|c| c.is_ascii_graphic() && c != '\\')
}

/// Parses a query, with or without its question mark. `at_home`: the page comes from a server on this machine; no other page starts
/// a run without a click. `is_here`: whether the browser resolves a path to an address of that server.
pub fn parse(query: &str, at_home: bool, is_here: impl Fn(&str) -> bool) -> Request {
    let spec = Ok(Spec::default());
    let mut request = Request {
        spec,
        mode: Mode::Measure,
        way: TargetConfig::default(),
        report: None,
        kernels: None,
        collector: None,
    };
    let mut pairs = Vec::new();
    let mut mistake = None;
    for (key, value) in query::read(query) {
        match (key.as_str(), value.as_str()) {
            ("mode", "measure") => request.mode = Mode::Measure,
            ("mode", "verify") => request.mode = Mode::Verify,
            ("mode", _) => mistake = Some(format!("unknown mode `{value}`: choose one of measure, verify")),
            ("target", name) => match Target::ALL.into_iter().find(|target| target.name() == name) {
                Some(target) => request.way.target = target,
                None => mistake = Some(format!("unknown target `{value}`: a page is one of browser, wasm")),
            },
            ("features", name) => match BrowserMode::named(name) {
                Ok(reach) => request.way.reach = reach,
                Err(unknown) => mistake = Some(unknown),
            },
            ("threads", "all") => request.way.threads = None,
            ("threads", number) => match number.parse() {
                Ok(threads) => request.way.threads = Some(threads),
                Err(_) => mistake = Some(format!("threads: `{number}` is neither `all` nor a number from 1")),
            },
            ("report", _) if !at_home => {
                mistake =
                    Some("report: only a page that a command line on this machine serves starts by itself".to_owned());
            }
            // Results may only go to the page's own server: a path, never another host.
            ("report", path) if is_path(path) && is_here(path) => {
                request.report = Some(value);
            }
            ("report", _) => mistake = Some(format!("report: `{value}` is not a path that begins with /")),
            // Only the command line that starts a run chooses other kernel sources.
            ("kernels", path) if at_home && is_path(path) && is_here(path) => {
                request.kernels = Some(value);
            }
            ("kernels", _) => {
                mistake =
                    Some("kernels: only a command line on this machine gives a page other kernel sources".to_owned());
            }
            ("desk", token) if !token.is_empty() && token.chars().all(|c| c.is_ascii_alphanumeric()) => {
                request.collector = Some(value);
            }
            ("desk", _) => mistake = Some("desk: open the whole address that `parallax serve` printed".to_owned()),
            _ => pairs.push((key, value)),
        }
    }
    let spec = Spec::from_pairs(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    request.spec = match mistake {
        Some(mistake) => Err(mistake),
        None => spec.map_err(|e| e.to_string()),
    };
    request
}

/// Query of a spec, a mode and a target configuration; empty if all are the default.
pub fn write(spec: &Spec, mode: Mode, TargetConfig { target, reach, threads }: TargetConfig) -> String {
    let mut pairs = spec.to_pairs();
    if target != Target::default() {
        pairs.push(("target", target.name().to_owned()));
    }
    if reach != BrowserMode::default() {
        pairs.push(("features", reach.name().to_owned()));
    }
    if let Some(threads) = threads {
        pairs.push(("threads", threads.to_string()));
    }
    if mode == Mode::Verify {
        pairs.push(("mode", "verify".to_owned()));
    }
    query::write(&pairs)
}

/// View of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Measurement of this device.
    Measurement,
    /// Comparison of runs.
    Comparison,
    /// Results of the address alone, without controls, for other sites.
    Embedded,
}

/// Returns the view that a query requests by `view=compare` or `embed=1`.
pub fn wanted(search: &str) -> Wanted {
    let pairs = query::read(search);
    let has = |key: &str, value: &str| pairs.iter().any(|(k, v)| k == key && v == value);
    match (has("embed", "1"), has("view", "compare")) {
        (true, _) => Wanted::Embedded,
        (_, true) => Wanted::Comparison,
        _ => Wanted::Measurement,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn parse(query: &str, at_home: bool) -> Request {
        super::parse(query, at_home, |_| true)
    }

    #[test]
    fn a_written_query_reads_back() {
        let pairs = [
            ("preset", "full"),
            ("filter", "attention*f16 & 100 % + #"),
            ("case", "attention/fwd/b1,h1,s17,d8/f32/flash"),
            ("budget", "2.5"),
        ];
        let spec = Spec::from_pairs(pairs).expect("valid");
        let ways = Target::ALL.into_iter().flat_map(|target| BrowserMode::ALL.map(|reach| (target, reach)));
        for (target, reach) in ways {
            for threads in [None, NonZeroU32::new(1), NonZeroU32::new(12)] {
                let way = TargetConfig { target, reach, threads };
                let query = write(&spec, Mode::Verify, way);
                let back = parse(&format!("?{query}"), false);
                let spec = Ok(spec.clone());
                assert_eq!(
                    back,
                    Request { spec, mode: Mode::Verify, way, report: None, kernels: None, collector: None }
                );
            }
        }
        assert_eq!(write(&Spec::default(), Mode::Measure, Default::default()), "");
    }

    #[test]
    fn reports_go_to_a_path_of_the_same_server_only() {
        assert_eq!(parse("report=/api/events&budget=2", true).report.as_deref(), Some("/api/events"));
        for foreign in [
            "https://elsewhere.example/x",
            "//elsewhere.example/x",
            "/\\elsewhere.example",
            "/%5celsewhere.example",
            "/%09/elsewhere.example/x",
            "/%0a/elsewhere.example/x",
            "/%0d%0a/elsewhere.example/x",
            "%09//elsewhere.example/x",
            "%20//elsewhere.example/x",
            "/x%09y",
            "/%00",
            "/%e2%80%ae",
            "x",
            "",
        ] {
            for key in ["report", "kernels"] {
                let request = parse(&format!("{key}={foreign}"), true);
                assert_eq!((request.report, request.kernels), (None, None), "{foreign}");
                assert!(request.spec.is_err(), "{foreign}");
            }
        }
        let request = super::parse("report=/x&kernels=/y", true, |_| false);
        assert_eq!((request.report, request.kernels), (None, None), "the browser has the last word");
    }

    #[test]
    fn a_collector_is_named_by_a_token_that_is_not_written() {
        let request = parse("?desk=0aF&budget=2", false);
        assert_eq!(request.collector.as_deref(), Some("0aF"));
        assert_eq!(write(&request.spec.expect("valid"), Mode::Measure, request.way), "budget=2");
        for mistaken in ["", "a/b", "a%0d%0ab", "ä"] {
            let request = parse(&format!("desk={mistaken}"), true);
            assert!(request.collector.is_none() && request.spec.is_err(), "{mistaken}");
        }
    }

    #[test]
    fn a_page_from_elsewhere_starts_nothing_by_itself() {
        let request = parse("report=/api/events&budget=2", false);
        assert_eq!(request.report, None);
        assert!(request.spec.expect_err("refused").contains("on this machine"));
    }

    #[test]
    fn kernel_texts_come_from_the_command_line_only() {
        let request = parse("report=/api/events&kernels=/api/kernels", true);
        assert_eq!(request.kernels.as_deref(), Some("/api/kernels"));
        for foreign in [parse("kernels=/api/kernels", false), parse("kernels=//elsewhere.example", true)] {
            assert!(foreign.kernels.is_none() && foreign.spec.expect_err("refused").contains("command line"));
        }
    }

    #[test]
    fn mistakes_are_said_and_the_report_path_survives_them() {
        let request = parse("report=/api/events&presett=quick", true);
        assert_eq!(request.report.as_deref(), Some("/api/events"));
        assert!(request.spec.expect_err("wrong key").contains("unknown setting `presett`"));
        assert!(parse("target=cuda", true).spec.expect_err("no page").contains("browser, wasm"));
        let unknown = parse("features=all", true);
        assert!(
            unknown.way.reach == BrowserMode::Stock
                && unknown.spec.expect_err("none").contains("stock, developer, unsafe")
        );
        for none in ["0", "-1", "many", ""] {
            let request = parse(&format!("threads={none}"), true);
            assert!(request.spec.expect_err("no number").contains("a number from 1"), "{none}");
        }
        assert!(parse("mode=fast", true).spec.expect_err("wrong mode").contains("measure, verify"));
    }

    #[test]
    fn only_its_own_word_requests_another_view() {
        for (search, want) in [
            ("?view=compare", Wanted::Comparison),
            ("?a=x.json&view=compare", Wanted::Comparison),
            ("?view=measure", Wanted::Measurement),
            ("?viewcompare", Wanted::Measurement),
            ("?embed=1", Wanted::Embedded),
            ("?view=compare&embed=1", Wanted::Embedded),
            ("?embed=0", Wanted::Measurement),
        ] {
            assert_eq!(wanted(search), want, "{search}");
        }
    }
}

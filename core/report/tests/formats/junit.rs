//! JUnit XML against the rules of two schemas: `junit-10.xsd` of <https://github.com/jenkinsci/xunit-plugin>, and `JUnit.xsd` of
//! <https://github.com/windyroad/JUnit-Schema>.

use std::collections::BTreeMap;

use parallax_analysis::compare::{Gate, Options, compare};
use parallax_report::ci::{junit, junit_comparison};
use parallax_schema::record::{NamedRun, Outcome};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::{CASE, OTHER, empty, full};

/// An element, its attributes and its children.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Element>,
}

impl Element {
    fn of(start: &BytesStart<'_>) -> Element {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let attribute = |pair: Result<quick_xml::events::attributes::Attribute<'_>, _>| {
            let pair = pair.expect("an attribute");
            let raw = text(&pair.value);
            assert!(!raw.contains('<'), "{raw}");
            (text(pair.key.as_ref()), quick_xml::escape::unescape(&raw).expect("known entities").into_owned())
        };
        Element {
            name: text(start.name().as_ref()),
            attributes: start.attributes().map(attribute).collect(),
            children: Vec::new(),
        }
    }

    fn all(&self, name: &str) -> Vec<&Element> {
        self.children.iter().filter(|child| child.name == name).collect()
    }

    fn number(&self, key: &str) -> usize {
        self.attributes[key].parse().expect("a whole number")
    }
}

fn parse(text: &str) -> Element {
    let mut reader = Reader::from_str(text);
    let mut open = vec![Element::default()];
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => open.push(Element::of(&start)),
            Event::Empty(start) => open.last_mut().expect("a parent").children.push(Element::of(&start)),
            Event::End(_) => {
                let closed = open.pop().expect("an open element");
                open.last_mut().expect("a parent").children.push(closed);
            }
            Event::Text(text) => assert!(text.iter().all(u8::is_ascii_whitespace), "text between elements"),
            Event::Eof => break,
            _ => {}
        }
    }
    let mut root = open.pop().expect("the root");
    assert!(open.is_empty() && root.children.len() == 1);
    root.children.remove(0)
}

/// Name, required attributes, optional attributes, and the order of the children.
type Rule = (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// Rules that both schemas contain.
const RULES: [Rule; 9] = [
    ("testsuites", &[], &[], &["testsuite"]),
    (
        "testsuite",
        &["name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"],
        &["skipped"],
        &["properties", "testcase", "system-out", "system-err"],
    ),
    ("properties", &[], &[], &["property"]),
    ("property", &["name", "value"], &[], &[]),
    ("testcase", &["name", "classname", "time"], &[], &["skipped", "error", "failure"]),
    ("skipped", &[], &["message", "type"], &[]),
    ("failure", &["type"], &["message"], &[]),
    ("system-out", &[], &[], &[]),
    ("system-err", &[], &[], &[]),
];

/// Returns an error of an element or of one inside it.
fn broken(element: &Element) -> Option<String> {
    let name = &element.name;
    let Some((_, required, optional, children)) = RULES.iter().find(|rule| rule.0 == name) else {
        return Some(format!("{name} is no element"));
    };
    let is_token = |text: &str| !text.is_empty() && text.trim() == text && !text.contains("  ");
    let is_decimal = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let digits =
        |text: &str| text.bytes().map(|b| if b.is_ascii_digit() { '0' } else { b as char }).collect::<String>();
    let missing = required.iter().find(|key| !element.attributes.contains_key(**key));
    let wrong = element.attributes.iter().find(|(key, value)| {
        let fits = match key.as_str() {
            "name" | "classname" | "package" | "hostname" => is_token(value),
            "time" => is_decimal(value),
            "timestamp" => digits(value) == "0000-00-00T00:00:00",
            "id" | "tests" | "failures" | "errors" | "skipped" => value.parse::<u32>().is_ok(),
            _ => true,
        };
        !fits || !(required.contains(&key.as_str()) || optional.contains(&key.as_str()))
    });
    let place = |child: &Element| children.iter().position(|known| *known == child.name);
    let places: Vec<Option<usize>> = element.children.iter().map(place).collect();
    let one_result = name != "testcase" || element.children.len() <= 1;
    let complete = name != "testsuite"
        || ["properties", "system-out", "system-err"].iter().all(|once| element.all(once).len() == 1);
    if let Some(key) = missing {
        Some(format!("{name} has no {key}"))
    } else if let Some(wrong) = wrong {
        Some(format!("{name} has {wrong:?}"))
    } else if places.contains(&None) || !places.is_sorted() || !one_result || !complete {
        Some(format!("{name} has the wrong children"))
    } else {
        element.children.iter().find_map(broken)
    }
}

/// Parses a valid document with true counts.
fn valid(text: &str) -> Element {
    let root = parse(text);
    assert_eq!((root.name.as_str(), broken(&root)), ("testsuites", None), "{text}");
    for suite in root.all("testsuite") {
        let tests = suite.all("testcase");
        let with = |name: &str| tests.iter().filter(|test| !test.all(name).is_empty()).count();
        assert_eq!(suite.number("tests"), tests.len());
        assert_eq!(
            ["failure", "error", "skipped"].map(with),
            ["failures", "errors", "skipped"].map(|k| suite.number(k))
        );
    }
    root
}

/// Returns each test of a suite: the end of its name, and its result with the message.
fn results(suite: &Element) -> Vec<(String, String, String)> {
    let of_test = |test: &&Element| {
        let name = test.attributes["name"].rsplit('/').next().expect("a part").to_owned();
        let result = test.children.first();
        let kind = result.map_or("passed", |r| r.attributes.get("type").map_or("skipped", String::as_str)).to_owned();
        (name, kind, result.map_or(String::new(), |r| r.attributes["message"].clone()))
    };
    suite.all("testcase").iter().map(of_test).collect()
}

#[test]
fn a_run_has_a_test_for_each_case() {
    let root = valid(&junit(&[full("a", 1.0), NamedRun::new(" ", empty())]));
    let suites = root.all("testsuite");
    assert_eq!(suites.len(), 2);
    assert_eq!((suites[1].attributes["name"].as_str(), suites[1].number("tests")), ("unnamed", 0));
    let found = results(suites[0]);
    let kinds: Vec<(&str, &str)> = found.iter().map(|(name, kind, _)| (name.as_str(), kind.as_str())).collect();
    assert_eq!(
        kinds,
        [
            ("flash", "passed"),
            ("fused", "passed"),
            ("few", "passed"),
            ("skipped", "skipped"),
            ("error", "ERROR"),
            ("fail", "FAIL"),
            ("fast", "impossible"),
            ("short", "unresolved"),
            ("late", "not reached"),
        ]
    );
    assert_eq!(found[3].2, "no <i>room</i> & no \"time\"");
    let first = suites[0].all("testcase")[0];
    assert_eq!((first.attributes["name"].as_str(), first.attributes["classname"].as_str()), (CASE, "a.attention"));
    let seconds: f64 = first.attributes["time"].parse().expect("a number");
    assert!((seconds - 100e-9).abs() < 1e-12, "{seconds}");
    assert_eq!(suites[0].attributes["timestamp"], "2023-11-14T22:13:20");
}

#[test]
fn a_comparison_fails_where_it_is_slower_and_by_its_gate() {
    let mut runs = [full("base", 1.0), full("slow", 1.1)];
    runs[1].run.records[5] = runs[0].run.records[0].clone();
    runs[1].run.records.remove(1);
    let compared = |gate| {
        let comparison = compare(&runs, &Options::default()).expect("pairs");
        let root = valid(&junit_comparison(&comparison, gate));
        let suites = root.all("testsuite");
        assert_eq!((suites.len(), suites[0].attributes["name"].as_str()), (1, "slow"));
        results(suites[0])
    };
    let kind = |found: &[(String, String, String)], name: &str| {
        found.iter().find(|(of, ..)| of == name).map(|(_, kind, _)| kind.clone()).expect("a test")
    };
    let plain = compared(Gate::default());
    assert_eq!((kind(&plain, "flash"), kind(&plain, "few")), ("slower".to_owned(), "skipped".to_owned()));
    assert_eq!((kind(&plain, "fused"), kind(&plain, "error")), ("lost".to_owned(), "lost".to_owned()));
    assert!(plain.iter().any(|(name, _, message)| name == "flash" && message.contains("1.100×")), "{plain:?}");
    let wide = compared(Gate { slower: Some(0.2), undecided: true });
    assert_eq!((kind(&wide, "flash"), kind(&wide, "few")), ("passed".to_owned(), "undecided".to_owned()));
    let narrow = compared(Gate { slower: Some(0.05), undecided: false });
    assert_eq!(kind(&narrow, "flash"), "slower");
    assert!(runs[0].run.records.iter().any(|r| r.case == OTHER && matches!(r.outcome, Outcome::Pass(_))));
}

#[test]
fn the_rules_refuse_other_documents() {
    let good = junit(&[full("a", 1.0)]);
    for (from, to) in [
        ("<system-out/>", ""),
        (" classname=", " class="),
        ("errors=\"0\"", "errors=\"none\""),
        ("time=\"0.000000100000\"", "time=\"1e-7\""),
        ("T22:13:20", " 22:13:20Z"),
        ("<skipped ", "<skip "),
    ] {
        assert!(good.contains(from), "{from} in {good}");
        assert!(broken(&parse(&good.replacen(from, to, 1))).is_some(), "{to}");
    }
}

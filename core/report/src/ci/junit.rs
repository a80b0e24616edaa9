//! JUnit XML: a test case for each case of a run, or for each pair of a comparison.
//!
//! The files are valid by both common schemas: `junit-10.xsd` of Jenkins' xUnit plugin, and `JUnit.xsd` of Apache Ant's reports
//! (windyroad/JUnit-Schema), which is stricter. The time of a test case is the median time of one execution, in seconds.

use parallax_analysis::compare::scores::{Change, ScorePair};
use parallax_analysis::compare::verdict::{Ratio, Verdict};
use parallax_analysis::compare::{Comparison, Gate, RunHead};
use parallax_schema::record::{NamedRun, Outcome, Record};
use parallax_schema::units::{Nanos, percent};

use crate::date::date;
use crate::escape;

/// Tests of one run.
struct Suite {
    name: String,
    /// Start, in seconds since 1970.
    started: u64,
    properties: Vec<(&'static str, String)>,
    tests: Vec<Test>,
}

struct Test {
    name: String,
    class: String,
    time: Option<Nanos>,
    result: TestResult,
}

enum TestResult {
    Passed,
    Skipped(String),
    Failed { kind: &'static str, message: String },
}

/// Returns the cases of runs as JUnit XML. A case that failed, had no credible time or was not reached is a failure.
pub fn junit(runs: &[NamedRun]) -> String {
    let suite = |NamedRun { name, run }: &NamedRun| {
        let test = |record: &Record| Test {
            name: record.case.clone(),
            class: class(name, &record.case),
            time: record.timing().map(|timing| timing.summary.median),
            result: result(record),
        };
        let why = run.interrupted.as_deref().unwrap_or("the run ended before it");
        let missing = run.missing().map(|case| Test {
            name: case.to_owned(),
            class: class(name, case),
            time: None,
            result: TestResult::Failed { kind: "not reached", message: why.to_owned() },
        });
        let device = run.device();
        Suite {
            name: name.clone(),
            started: run.started,
            properties: vec![
                ("target", run.way()),
                ("device", device.name.clone()),
                ("driver", device.driver.clone()),
                ("version", run.suite.version.clone()),
                ("commit", run.suite.commit.clone()),
            ],
            tests: run.as_planned().into_iter().map(test).chain(missing).collect(),
        }
    };
    document(&runs.iter().map(suite).collect::<Vec<_>>())
}

fn result(record: &Record) -> TestResult {
    let message = match &record.outcome {
        Outcome::Pass(_) => return TestResult::Passed,
        Outcome::Skipped { reason } => return TestResult::Skipped(reason.clone()),
        Outcome::Fail { check } => check.sentence(),
        Outcome::Refused { reason, .. } | Outcome::Error { reason } => reason.clone(),
    };
    TestResult::Failed { kind: record.verdict(), message }
}

/// Returns the pairs of a comparison as JUnit XML, a suite for each run but the base. A slower pair is a failure, beyond the limit
/// of the gate if it has one. So is a worse score, and a lost case. An undecided pair is a failure with that gate, else a skip.
pub fn junit_comparison(comparison: &Comparison, gate: Gate) -> String {
    let base = &comparison.runs[comparison.base];
    let others = comparison.runs.iter().enumerate().filter(|(i, _)| *i != comparison.base);
    let suite = |(i, run): (usize, &RunHead)| Suite {
        name: run.name.clone(),
        started: run.started,
        properties: vec![
            ("base", base.name.clone()),
            ("base commit", base.commit.clone()),
            ("target", run.target.clone()),
            ("device", run.device.clone()),
            ("commit", run.commit.clone()),
        ],
        tests: compared_tests(comparison, i, gate),
    };
    document(&others.map(suite).collect::<Vec<_>>())
}

fn compared_tests(comparison: &Comparison, i: usize, gate: Gate) -> Vec<Test> {
    let name = &comparison.runs[i].name;
    let pairs = comparison.pairs.iter().filter_map(|pair| {
        let ratio = pair.ratios[i].as_ref()?;
        let time = pair.figures[i].map(|figure| figure.median);
        Some(Test { name: pair.case.clone(), class: class(name, &pair.case), time, result: of_ratio(ratio, gate) })
    });
    let scores = comparison.scores.iter().filter_map(|pair| {
        let result = of_score(pair, i, comparison, gate)?;
        Some(Test { name: format!("{}: {}", pair.case, pair.name), class: class(name, &pair.case), time: None, result })
    });
    let alone = |case: &str, result| Test { name: case.to_owned(), class: class(name, case), time: None, result };
    let lost = comparison.lost.iter().filter(|lost| lost.run == i);
    let lost = lost.map(|lost| alone(&lost.case, TestResult::Failed { kind: "lost", message: lost.reason.clone() }));
    let is_lost = |case: &str| comparison.lost.iter().any(|lost| lost.run == i && lost.case == case);
    let unpaired = comparison.unpaired.iter().filter(|other| other.run == i && !is_lost(&other.case));
    let unpaired = unpaired.map(|other| alone(&other.case, TestResult::Skipped(other.reason.clone())));
    pairs.chain(scores).chain(lost).chain(unpaired).collect()
}

fn of_ratio(ratio: &Ratio, gate: Gate) -> TestResult {
    let message = [ratio.to_string()].into_iter().chain(ratio.notes.iter().cloned()).collect::<Vec<_>>().join("; ");
    match (ratio.verdict, gate.slower) {
        (Verdict::Slower, None) => TestResult::Failed { kind: "slower", message },
        (Verdict::Slower, Some(limit)) if ratio.low.is_some_and(|low| low > 1.0 + limit) => {
            TestResult::Failed { kind: "slower", message: format!("slower by more than {}: {message}", percent(limit)) }
        }
        (Verdict::Undecided, _) => undecided(message, gate),
        _ => TestResult::Passed,
    }
}

fn of_score(pair: &ScorePair, i: usize, comparison: &Comparison, gate: Gate) -> Option<TestResult> {
    let difference = pair.differences[i].as_ref()?;
    let limit = gate.slower.unwrap_or(0.0) * pair.scores[comparison.base].as_ref().map_or(0.0, |s| s.value.abs());
    Some(match difference.verdict {
        Change::Worse if difference.worse_by_at_least(pair.better) > limit => {
            TestResult::Failed { kind: "worse", message: difference.to_string() }
        }
        Change::Undecided => undecided(difference.to_string(), gate),
        _ => TestResult::Passed,
    })
}

fn undecided(message: String, gate: Gate) -> TestResult {
    match gate.undecided {
        true => TestResult::Failed { kind: "undecided", message },
        false => TestResult::Skipped(format!("undecided: {message}")),
    }
}

/// Returns the class of a case: its run and its workload.
fn class(run: &str, case: &str) -> String {
    format!("{run}.{}", case.split('/').next().unwrap_or_default())
}

fn document(suites: &[Suite]) -> String {
    let suites: String = suites.iter().enumerate().map(|(id, suite)| suite_xml(id, suite)).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{suites}</testsuites>\n")
}

fn suite_xml(id: usize, Suite { name, started, properties, tests }: &Suite) -> String {
    let failures = tests.iter().filter(|test| matches!(test.result, TestResult::Failed { .. })).count();
    let skipped = tests.iter().filter(|test| matches!(test.result, TestResult::Skipped(_))).count();
    let time = tests.iter().filter_map(|test| test.time).map(Nanos::secs).sum();
    // An unknown start has no date, which the stricter schema requires.
    let date = date(*started).unwrap_or_else(|| "1970-01-01 00:00:00Z".to_owned());
    let started = date.trim_end_matches('Z').replace(' ', "T");
    let name = xml_token(name);
    let property =
        |(name, value): &(&str, String)| format!("      <property name=\"{}\" value=\"{}\"/>\n", xml(name), xml(value));
    format!(
        "  <testsuite id=\"{id}\" name=\"{name}\" package=\"{name}\" hostname=\"localhost\" timestamp=\"{started}\" tests=\"{}\" \
         failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{}\">\n    <properties>\n{}    </properties>\n{}    \
         <system-out/>\n    <system-err/>\n  </testsuite>\n",
        tests.len(),
        seconds(time),
        properties.iter().map(property).collect::<String>(),
        tests.iter().map(test_xml).collect::<String>(),
    )
}

fn test_xml(Test { name, class, time, result }: &Test) -> String {
    let inner = match result {
        TestResult::Passed => String::new(),
        TestResult::Skipped(reason) => format!("<skipped message=\"{}\"/>", xml(reason)),
        TestResult::Failed { kind, message } => {
            format!("<failure type=\"{}\" message=\"{}\"/>", xml(kind), xml(message))
        }
    };
    let (name, class, time) = (xml_token(name), xml_token(class), seconds(time.map_or(0.0, Nanos::secs)));
    format!("    <testcase name=\"{name}\" classname=\"{class}\" time=\"{time}\">{inner}</testcase>\n")
}

/// Returns a decimal number of seconds: the schemas allow no exponent.
fn seconds(seconds: f64) -> String {
    // An empty sum is minus zero.
    format!("{:.12}", seconds + 0.0)
}

/// Returns a string as an attribute's value.
fn xml(text: &str) -> String {
    escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns a string as the value of a name, which has no space at its ends and is not empty.
fn xml_token(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { "unnamed".to_owned() } else { xml(&words.join(" ")) }
}

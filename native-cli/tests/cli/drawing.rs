//! Flame graphs of runs and profiles.

use std::path::Path;

use parallax_schema::device::{Span, SpanKind, Trace, Track};
use parallax_schema::record::{Outcome, Run};
use parallax_schema::units::Nanos;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;

use crate::comparing::recorded;
use crate::{TINY, folder, mistake, parallax};

/// A recorded run whose case has these stages: name, begin and end in each of two executions.
fn traced(folder: &Path, name: &str, device: &str, stages: &[(&str, f64, f64)], change: impl Fn(&mut Run)) {
    recorded(folder, name, "cuda", device, 1.0);
    let file = folder.join(name);
    let mut run = Run::parse(&std::fs::read_to_string(&file).expect("a file")).expect("a run");
    let span = |name: &str, kind, track, start, end| Span {
        name: name.to_owned(),
        kind,
        track,
        start: Nanos(start),
        end: Nanos(end),
        ..Span::default()
    };
    let mut spans = Vec::new();
    for at in [0.0, 10_000.0] {
        spans.push(span("ProfilerStep#0", SpanKind::Annotation, Track::Host, at, at + 9_000.0));
        let kernel =
            |(name, start, end): &(&str, f64, f64)| span(name, SpanKind::Kernel, Track::Gpu, at + start, at + end);
        spans.extend(stages.iter().map(kernel));
    }
    let Outcome::Pass(measured) = &mut run.records[0].outcome else { panic!("it passed") };
    measured.trace = Some(Trace { spans, ..Trace::default() });
    change(&mut run);
    std::fs::write(file, serde_json::to_string(&run).expect("JSON")).expect("writable");
}

/// The titles of an SVG, which viewers show for each frame. Everything in it must be well-formed.
fn titles(svg: &str) -> Vec<String> {
    let (mut reader, mut titles, mut open) = (Reader::from_str(svg), Vec::new(), false);
    loop {
        let text = match reader.read_event().expect("well-formed") {
            Event::Start(tag) if tag.name().as_ref() == b"title" => {
                open = true;
                titles.push(String::new());
                continue;
            }
            Event::End(tag) if tag.name().as_ref() == b"title" => {
                open = false;
                continue;
            }
            Event::Text(text) => text.decode().expect("UTF-8").into_owned(),
            Event::GeneralRef(name) => {
                let name = name.decode().expect("UTF-8");
                resolve_xml_entity(&name).unwrap_or_else(|| panic!("&{name}; is not of XML")).to_owned()
            }
            Event::Eof => return titles,
            _ => continue,
        };
        if open {
            titles.last_mut().expect("just opened").push_str(&text);
        }
    }
}

const STAGES: [(&str, f64, f64); 3] =
    [("scores", 0.0, 1_000.0), ("softmax", 1_500.0, 2_000.0), ("sum", 2_000.0, 4_000.0)];

#[test]
fn a_flame_graph_has_every_stage_below_its_case_and_is_always_the_same() {
    let dir = folder();
    traced(dir.path(), "a.json", "Card", &STAGES, |_| ());
    let drawn = |out: &str| {
        let output = parallax(dir.path(), &["report", "a.json", "--format", "flamegraph", "--output", out]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        std::fs::read_to_string(dir.path().join(out)).expect("the graph")
    };
    let svg = drawn("a.svg");
    assert_eq!(svg, drawn("b.svg"));
    let printed = parallax(dir.path(), &["report", "a.json", "--format", "flamegraph"]);
    assert_eq!(String::from_utf8_lossy(&printed.stdout), svg);
    assert!(svg.contains("Card\u{a0}(mock)\u{a0}as\u{a0}target\u{a0}cuda") && svg.contains("medians"));

    let titles = titles(&svg);
    for wanted in [
        "all (4,000 ns, 100%)",
        "attention (4,000 ns, 100.00%)",
        "fwd (4,000 ns, 100.00%)",
        "b1,h1,s3,d2/f32 (4,000 ns, 100.00%)",
        "host (4,000 ns, 100.00%)",
        "scores (1,000 ns, 25.00%)",
        "softmax (500 ns, 12.50%)",
        "sum (2,000 ns, 50.00%)",
        "between\u{a0}stages (500 ns, 12.50%)",
    ] {
        assert!(titles.iter().any(|title| title == wanted), "{wanted} in {titles:?}");
    }
    assert_eq!(titles.len(), 9, "{titles:?}");

    // Of several runs, each below its name.
    traced(dir.path(), "b.json", "Card", &STAGES[..1], |_| ());
    let output = parallax(dir.path(), &["report", "a.json", "b.json", "--format", "flamegraph"]);
    let titles = self::titles(&String::from_utf8(output.stdout).expect("text"));
    for wanted in ["a (4,000 ns, 80.00%)", "b (1,000 ns, 20.00%)"] {
        assert!(titles.iter().any(|title| title == wanted), "{wanted} in {titles:?}");
    }
}

#[test]
fn no_name_in_a_run_file_is_more_than_a_name_in_a_flame_graph() {
    let dir = folder();
    let name = "a;b 7\u{1b}]0;x\u{7}\u{202e}\u{ffff}<script>alert(1)</script>&quot;]]>\" 12";
    traced(dir.path(), "a.json", name, &[(name, 0.0, 100.0), ("x 5", 100.0, 150.0)], |run| {
        run.records[0].case = format!("{TINY}{name}");
        run.target = name.to_owned();
    });
    let output = parallax(dir.path(), &["report", "a.json", "--format", "flamegraph"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = String::from_utf8(output.stdout).expect("text");
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t' || matches!(c, '\u{202e}' | '\u{ffff}');
    assert!(!svg.contains(acts), "{svg:?}");
    assert_eq!(svg.matches("<script").count(), 1, "that of the graph itself");
    let titles = titles(&svg);
    let shown = r#"a\u{3b}b 7\u{1b}]0\u{3b}x\u{7}\u{202e}\u{ffff}<script>alert(1)</script>&quot\u{3b}]]>" 12"#;
    let shown = shown.replace(' ', "\u{a0}");
    for wanted in [format!("{shown} (100 ns, 66.67%)"), "x\u{a0}5 (50 ns, 33.33%)".to_owned()] {
        assert!(titles.contains(&wanted), "{wanted} in {titles:?}");
    }
}

#[test]
fn what_cannot_be_drawn_is_told_with_what_would_help() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "Card", 1.0);
    recorded(dir.path(), "b.json", "cuda", "Card", 2.0);
    let graph = ["--format", "flamegraph"];
    mistake(dir.path(), &[&["report", "a.json"][..], &graph].concat(), &["no stage times", "parallax profile"]);
    mistake(dir.path(), &[&["compare", "a.json", "b.json"][..], &graph].concat(), &["no verdicts", "parallax report"]);
}

#[test]
fn a_profile_draws_what_it_measured() {
    let dir = folder();
    let profile =
        ["profile", "attention", "--target", "cpu", "--case", TINY, "--budget", "1", "--format", "flamegraph"];
    let output = parallax(dir.path(), &profile);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wanted = |svg: &str| titles(svg).iter().any(|title| title.starts_with("b1,h1,s3,d2/f32 ("));
    assert!(wanted(&String::from_utf8(output.stdout).expect("an SVG and nothing else")));
    assert!(String::from_utf8_lossy(&output.stderr).contains("component"), "tables stand aside");

    let output = parallax(dir.path(), &[&profile[..], &["--output", "a.svg"]].concat());
    assert!(String::from_utf8_lossy(&output.stdout).contains("component"), "{output:?}");
    assert!(wanted(&std::fs::read_to_string(dir.path().join("a.svg")).expect("the graph")));
}

//! Files for other services, validated against the schemas of these services.

mod json;
mod junit;

use parallax_schema::record::{Better, Items, NamedRun, Outcome, Record, Refusal, Run};
use parallax_schema::testing::{exact, measured, record, run, score, spread, timing};

const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";
const OTHER: &str = "mlp_train/fwd+bwd/b1/f32/fused";

/// A run with a case of every outcome, and names that need escapes.
fn full(name: &str, factor: f64) -> NamedRun {
    let mut run = run(
        "cuda",
        "X <\"&\u{1b}>",
        &[
            (CASE, spread(factor * 100.0, 0.002, 40)),
            (OTHER, spread(factor * 2000.0, 0.002, 40)),
            ("copy/fwd/n4/f32/few", spread(50.0, 0.002, 3)),
        ],
    );
    run.started = 1_700_000_000;
    run.records[1].items = Some(Items { name: "samples".to_owned(), count: 8 });
    measured(&mut run, OTHER).scores = vec![score("accuracy", 0.9, Better::Higher)];
    let reason = || "no <i>room</i> & no \"time\"".to_owned();
    for (case, outcome) in [
        ("copy/fwd/n4/f32/skipped", Outcome::Skipped { reason: reason() }),
        ("copy/fwd/n4/f32/error", Outcome::Error { reason: reason() }),
        ("copy/fwd/n4/f32/fail", Outcome::Fail { check: exact() }),
        ("copy/fwd/n4/f32/fast", refused(Refusal::Impossible)),
        ("copy/fwd/n4/f32/short", refused(Refusal::Unresolvable)),
    ] {
        run.records.push(Record { outcome, ..record(case, timing(&[1.0])) });
    }
    run.planned = run.records.iter().map(|record| record.case.clone()).collect();
    run.planned.push("copy/fwd/n4/f32/late".to_owned());
    NamedRun::new(name, run)
}

fn refused(kind: Refusal) -> Outcome {
    Outcome::Refused { kind, reason: "faster than memory".to_owned(), check: exact() }
}

fn empty() -> Run {
    run("cuda", "X", &[])
}

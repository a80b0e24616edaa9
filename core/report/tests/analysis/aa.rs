//! Tests of comparisons through the tables that readers see.

use parallax_analysis::compare::aa::*;
use parallax_report::a_a_table;
use parallax_schema::testing::{drift, run, spread};

const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";
const NOISY: &str = "attention/fwd/b1,h1,s4,d2/f32/manual";

#[test]
fn equal_runs_are_the_same_and_a_slow_one_is_called_twice() {
    let at = |time: f64| run("cuda", "X", &[(CASE, spread(time, 0.002, 30)), (NOISY, spread(time, 0.5, 12))]);
    let calm = a_a(&[at(100.0), at(100.2), at(100.0)]);
    assert_eq!(calm.cases[0].counts, Counts { same: 2, ..Counts::default() });
    assert_eq!(calm.cases[1].counts, Counts { undecided: 2, ..Counts::default() });
    assert_eq!((calm.total.pairs(), calm.total.wrong()), (4, 0));
    assert!((calm.cases[0].worst - 0.002).abs() < 1e-9, "{}", calm.cases[0].worst);
    let (typical, worst) = (calm.detectable.expect("pairs"), calm.detectable_worst.expect("pairs"));
    let [small, large] = [0, 1].map(|i| calm.cases[i].detectable.expect("pairs"));
    assert!((0.01..0.02).contains(&small) && large > 0.3, "{small} {large}");
    assert!((typical - (small + large) / 2.0).abs() < 1e-12 && worst == large, "{typical} {worst}");

    let bumped = a_a(&[at(100.0), at(110.0), at(100.0)]);
    assert_eq!(bumped.cases[0].counts, Counts { slower: 1, faster: 1, ..Counts::default() });
    assert!((bumped.cases[0].worst - 0.1).abs() < 1e-9, "the same either way round");
    let text = a_a_table(&bumped).notes.join("\n");
    assert!(text.contains("2 of 4 pairs were called"), "{text}");
}

#[test]
fn reference_kernels_excuse_a_device_that_changed_its_speed() {
    let at = |by: f64| {
        let mut run = run("cuda", "X", &[(CASE, spread(100.0 * by, 0.002, 30))]);
        run.drift = drift(&spread(500.0 * by, 0.001, 10));
        run
    };
    assert_eq!(a_a(&[at(1.0), at(1.1)]).total.wrong(), 0);
}

#[test]
fn one_run_has_no_pairs() {
    let table = a_a(&[run("cuda", "X", &[(CASE, vec![1.0; 9])])]);
    assert_eq!((table.cases.len(), table.total.pairs(), table.detectable), (0, 0, None));
    assert_eq!(a_a_table(&table).rows.len(), 0);
}

//! One run of several runs of a program, measured alternately with those of another program.

use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Outcome, Record, Run, Timing};

/// Returns one run with the samples of all runs, in their order; `None` without runs. The other facts are those of the first run.
///
/// A case is timed if all runs have timed it. Of the others, the first record without a time counts, and a case that a run does not
/// have is left out.
pub fn pooled(runs: &[Run]) -> Option<Run> {
    let (first, others) = runs.split_first()?;
    let mut run = first.clone();
    for other in others {
        run.drift.extend(other.drift.iter().cloned());
        run.interrupted = run.interrupted.or_else(|| other.interrupted.clone());
    }
    run.records = first.records.iter().filter_map(|record| pooled_record(record, others)).collect();
    Some(run)
}

fn pooled_record(first: &Record, others: &[Run]) -> Option<Record> {
    let mut record = first.clone();
    for run in others {
        let other = run.records.iter().find(|other| other.case == first.case)?;
        match (timing_of(&mut record), other.timing()) {
            (None, _) => return Some(record),
            (Some(_), None) => return Some(other.clone()),
            (Some(timing), Some(more)) => append(timing, more),
        }
    }
    Some(record)
}

fn timing_of(record: &mut Record) -> Option<&mut Timing> {
    match &mut record.outcome {
        Outcome::Pass(measured) => measured.timing.as_mut(),
        _ => None,
    }
}

fn append(timing: &mut Timing, more: &Timing) {
    timing.samples.extend(&more.samples);
    timing.host_samples.extend(&more.host_samples);
    timing.conditions.extend(more.conditions.iter().cloned());
    timing.discarded.extend(more.discarded.iter().cloned());
    timing.clock_error = timing.clock_error.max(more.clock_error);
    timing.spent += more.spent;
    timing.summary = Summary::of(&timing.samples).unwrap_or(timing.summary);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::verdict::Verdict;
    use crate::compare::{Options, compare};
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{drift, run, spread};

    const CASE: &str = "a/fwd/b1/f32/x";
    const OTHER: &str = "b/fwd/b1/f32/x";

    fn of(median: f64) -> Run {
        let mut run = run("cuda", "X", &[(CASE, spread(median, 0.002, 40)), (OTHER, spread(median, 0.002, 40))]);
        run.drift = drift(&[10.0]);
        run
    }

    #[test]
    fn samples_of_all_runs_make_one_figure() {
        let pool = pooled(&[of(100.0), of(104.0)]).expect("runs");
        let timing = pool.records[0].timing().expect("timed");
        assert_eq!(
            (timing.samples.len(), timing.host_samples.len(), timing.summary.n, pool.drift.len()),
            (80, 80, 80, 2)
        );
        assert!(timing.summary.low.0 < 101.0 && timing.summary.high.0 > 103.0, "{:?}", timing.summary);
        assert_eq!(pooled(&[]), None);
    }

    /// A difference between runs of one program is no difference between programs.
    #[test]
    fn runs_that_differ_among_each_other_decide_nothing() {
        let verdict = |a: [f64; 2], b: [f64; 2]| {
            let named = |name: &str, medians: [f64; 2]| NamedRun::new(name, pooled(&medians.map(of)).expect("runs"));
            compare(&[named("a", a), named("b", b)], &Options::default()).expect("pairs").pairs[0].ratios[1]
                .as_ref()
                .map(|ratio| ratio.verdict)
        };
        assert_eq!(verdict([100.0, 110.0], [105.0, 115.0]), Some(Verdict::Undecided));
        assert_eq!(verdict([100.0, 100.5], [110.0, 110.5]), Some(Verdict::Slower));
    }

    #[test]
    fn a_case_without_a_time_in_one_run_has_none() {
        let failed = |mut run: Run| {
            run.records[0].outcome = Outcome::Error { reason: "the device was lost".to_owned() };
            run.records.truncate(1);
            run
        };
        for runs in [[of(1.0), failed(of(1.0))], [failed(of(1.0)), of(1.0)]] {
            let pool = pooled(&runs).expect("runs");
            let cases: Vec<(&str, &str)> = pool.records.iter().map(|r| (r.case.as_str(), r.verdict())).collect();
            assert_eq!(cases, [(CASE, "ERROR")]);
        }
    }
}

//! Summary of a run in words: the fastest variants and their lead, the imprecise results, and the disturbances.

use parallax_analysis::compare::judge;
use parallax_analysis::compare::verdict::{Ratio, Verdict, digits, drift_within, resolution_on};
use parallax_schema::case::problem_of;
use parallax_schema::record::stats::quantile;
use parallax_schema::record::{Record, Run, StopReason, Timing};
use parallax_schema::spec::PRECISION_NATIVE;
use parallax_schema::units::percent;

/// Returns the precision that a run aimed for.
pub(crate) fn aim(run: &Run) -> f64 {
    run.spec.precision.unwrap_or(PRECISION_NATIVE)
}

/// Returns whether a figure misses the requested precision.
pub(crate) fn short_of_precision(record: &Record, run: &Run) -> bool {
    record.timing().is_some_and(|t| t.summary.precision() > aim(run))
}

/// Returns the summary of a run, one sentence per line.
pub fn summary(run: &Run) -> Vec<String> {
    let mut lines = fastest(run);
    lines.extend(precision(run));
    lines.extend(disturbances(run));
    lines
}

/// Returns the fastest variant of each problem with several variants, in the order of the table.
fn fastest(run: &Run) -> Vec<String> {
    let timed = run.as_planned().into_iter().filter(|r| r.timing().is_some());
    let problems = timed.map(|record| (problem_of(&record.case), record));
    let ranked = |(problem, records)| Some(format!("  {problem}: {}", ranked(run, records)?));
    let lines: Vec<String> = parallax_schema::grouped(problems).into_iter().filter_map(ranked).collect();
    let title = (!lines.is_empty()).then(|| "fastest of each problem:".to_owned());
    title.into_iter().chain(lines).collect()
}

/// Returns the ranking of some records of one problem, as far as their intervals allow; `None` without a second record.
fn ranked(run: &Run, records: Vec<&Record>) -> Option<String> {
    // A variant that also ran under another name would only be compared with itself.
    let again = |r: &Record| r.actual.as_ref().is_some_and(|a| records.iter().any(|o| o.parts.variant == a.variant));
    let mut records: Vec<&Record> = records.iter().copied().filter(|r| !again(r)).collect();
    let median = |r: &Record| r.timing().map_or(f64::INFINITY, |t| t.summary.median.0);
    records.sort_by(|a, b| median(a).total_cmp(&median(b)));
    let (first, others) = records.split_first()?;
    let (asked, drift) = (resolution_on(run.device().kind), drift_within(&run.drift));
    let against = |other: &&&Record| judge((run, first), (run, other), asked, drift);
    let ratios: Vec<(&str, Ratio)> =
        others.iter().filter_map(|other| Some((other.parts.variant.as_str(), against(&other)?))).collect();
    let slower = ratios.iter().find(|(_, ratio)| ratio.verdict == Verdict::Slower);
    let close = || ratios.iter().filter(|(_, ratio)| ratio.verdict != Verdict::Slower);
    let leaders: Vec<&str> = std::iter::once(first.parts.variant.as_str()).chain(close().map(|(v, _)| *v)).collect();
    let alike = close().all(|(_, ratio)| ratio.verdict == Verdict::Same);
    let ahead = slower.map(|(variant, ratio)| format!(", {}× as fast as {variant}", digits(ratio.value)));
    let said = match (leaders[..].split_last()?, alike) {
        ((only, []), _) => return Some(format!("{only}{}", ahead?)),
        ((last, before), true) => format!("{} and {last} are alike", before.join(", ")),
        ((last, before), false) => format!("{} and {last} do not differ measurably", before.join(", ")),
    };
    Some(said + &ahead.unwrap_or_default())
}

/// Returns a sentence on the number of results that miss the requested precision, with a remedy.
fn precision(run: &Run) -> Option<String> {
    let timed: Vec<&Timing> = run.records.iter().filter_map(Record::timing).collect();
    let missed: Vec<&Timing> = timed.iter().copied().filter(|t| t.summary.precision() > aim(run)).collect();
    if missed.is_empty() {
        return None;
    }
    let what = match (missed.len(), timed.len()) {
        (missed, all) if missed == all && all > 1 => {
            format!("all {all} results are noisier than ± {}", percent(aim(run)))
        }
        (1, all) => format!("1 of {all} results is noisier than ± {}", percent(aim(run))),
        (missed, all) => format!("{missed} of {all} results are noisier than ± {}", percent(aim(run))),
    };
    let (full, open): (Vec<&Timing>, Vec<&Timing>) = missed.iter().partition(|t| t.stopped == StopReason::Samples);
    let most = "the most samples of a case, so only a quieter device helps";
    if open.is_empty() {
        return Some(format!("{what}: they took {most}"));
    }
    let budget = open.iter().map(|t| times_as_long(t, aim(run))).fold(1.0, f64::max) * run.spec.budget;
    let few = open.iter().filter(|t| !t.summary.precision().is_finite()).count();
    let few_of_them = if few == missed.len() { "all".to_owned() } else { few.to_string() };
    let noisy = |t: &&&Timing| t.summary.precision().is_finite();
    let worst = open.iter().filter(noisy).map(|t| t.summary.precision()).fold(0.0, f64::max);
    let too_long = budget > MOST_ADVISED * run.spec.budget;
    let remedy = match few {
        0 if too_long => format!(
            ": more time will not help; close other programs and run again, or choose a wider aim, as in `--precision {}`",
            share(worst)
        ),
        _ if too_long => format!(
            ", {few_of_them} of them with too few samples for any interval: more time will not help; choose smaller shapes, or \
             fewer cases with `--filter`"
        ),
        0 => format!(": `--budget {}` would reach it, if the noise stays as it is", seconds(budget)),
        _ => format!(
            ", {few_of_them} of them with too few samples for any interval: `--budget {}` at least",
            seconds(budget)
        ),
    };
    let but = if full.is_empty() { String::new() } else { format!("; {} took {most}", full.len()) };
    Some(format!("{what}{remedy}{but}"))
}

/// Longest advised run, in budgets: hours of samples do not average noise away.
const MOST_ADVISED: f64 = 10.0;

/// Formats a precision, rounded up to two digits.
fn share(precision: f64) -> String {
    let digits = (1.0 - precision.log10().floor()).clamp(0.0, 17.0);
    format!("{:.*}", digits as usize, (precision * 10f64.powf(digits)).ceil() / 10f64.powf(digits))
}

/// Number of samples below which slow stretches are indistinguishable, so that even a quiet device has a wide interval.
const ENOUGH: f64 = 16.0;

/// Factor of sampling time that a figure needs: intervals shrink with the root of the number of samples.
fn times_as_long(timing: &Timing, aim: f64) -> f64 {
    match timing.summary.precision() / aim {
        over if over.is_finite() => over * over,
        _ => ENOUGH / f64::from(timing.summary.n.max(1)),
    }
}

/// Rounds an estimate up to two digits.
fn seconds(budget: f64) -> u64 {
    let step = 10f64.powf((budget.log10().floor() - 1.0).max(0.0));
    ((budget / step).ceil() * step) as u64
}

/// Share of samples above which outliers or discarded samples are reported.
const MANY: f64 = 0.05;

/// Returns the disturbances of the run in one line; `None` if they are insignificant.
fn disturbances(run: &Run) -> Option<String> {
    let mut parts = Vec::new();
    let drift = drift_within(&run.drift);
    if drift > resolution_on(run.device().kind) {
        parts.push(format!("the device's own speed varied by {}, as the reference kernel shows", percent(drift)));
    }
    let timings = || run.records.iter().filter_map(|r| Some((r, r.timing()?)));
    let discarded: Vec<&str> = timings().flat_map(|(_, t)| &t.discarded).map(|d| d.reason.as_str()).collect();
    let kept: usize = timings().map(|(_, t)| t.samples.len()).sum();
    if discarded.len() as f64 > MANY * (kept + discarded.len()) as f64 {
        // Most reasons differ in a figure only.
        let like = if discarded.iter().any(|why| *why != discarded[0]) { ", and the like" } else { "" };
        parts.push(format!("{} samples were discarded ({}{like})", discarded.len(), discarded[0]));
    }
    let outliers = timings().map(|(record, t)| (record, outliers(&t.samples))).filter(|(_, share)| *share > MANY);
    let outliers: Vec<(&Record, f64)> = outliers.collect();
    if let Some((worst, share)) = outliers.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        let cases =
            if outliers.len() == 1 { "1 case has".to_owned() } else { format!("{} cases have", outliers.len()) };
        parts.push(format!("{cases} many outliers, up to {} of the samples of {}", percent(*share), worst.case));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the share of samples above the third quartile by more than three interquartile ranges: Tukey's "far out".
fn outliers(samples: &[f64]) -> f64 {
    if samples.is_empty() {
        return 0.0;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [q1, q3] = [0.25, 0.75].map(|p| quantile(&sorted, p));
    let fence = q3 + 3.0 * (q3 - q1);
    samples.iter().filter(|t| **t > fence).count() as f64 / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::{ActualVariant, Discarded};
    use parallax_schema::testing::{drift, measured, run, spread};

    const PROBLEM: &str = "attention/fwd/b1,h1,s4,d2/f32";

    /// A variant, the median of its samples, and their spread.
    type Variant = (&'static str, f64, f64);

    /// Returns a run with variants of one problem.
    fn of(variants: &[Variant]) -> Run {
        let cases: Vec<(String, Vec<f64>)> = variants
            .iter()
            .map(|(name, median, width)| (format!("{PROBLEM}/{name}"), spread(*median, *width, 40)))
            .collect();
        let cases: Vec<(&str, Vec<f64>)> = cases.iter().map(|(case, times)| (case.as_str(), times.clone())).collect();
        run("cuda", "X", &cases)
    }

    #[test]
    fn faster_is_said_only_where_the_intervals_allow_it() {
        let quiet = 0.002;
        let cases: [(&[Variant], Option<&str>); 6] = [
            (&[("flash", 100.0, quiet), ("manual", 150.0, quiet)], Some("flash, 1.500× as fast as manual")),
            (&[("manual", 150.0, quiet), ("flash", 100.0, quiet)], Some("flash, 1.500× as fast as manual")),
            (&[("flash", 100.0, quiet), ("manual", 100.2, quiet)], Some("flash and manual are alike")),
            (
                &[("a", 100.0, quiet), ("b", 100.2, quiet), ("c", 120.0, quiet), ("d", 200.0, quiet)],
                Some("a and b are alike, 1.200× as fast as c"),
            ),
            (&[("flash", 100.0, 0.4), ("manual", 105.0, 0.4)], Some("flash and manual do not differ measurably")),
            (&[("flash", 100.0, quiet)], None),
        ];
        for (variants, want) in cases {
            let want = want.map(|want| format!("  {PROBLEM}: {want}"));
            assert_eq!(fastest(&of(variants)).get(1), want.as_ref());
        }
    }

    #[test]
    fn what_ran_under_another_name_is_not_held_against_itself() {
        let mut run = of(&[("owner", 100.0, 0.002), ("auto", 100.1, 0.002), ("basic", 300.0, 0.002)]);
        run.records[1].actual = Some(ActualVariant { variant: "owner".to_owned(), reason: String::new() });
        let said = |run: &Run| fastest(run).pop().expect("two variants");
        assert_eq!(said(&run), format!("  {PROBLEM}: owner, 3.000× as fast as basic"));
        run.records.remove(0);
        assert_eq!(said(&run), format!("  {PROBLEM}: auto, 2.997× as fast as basic"));
    }

    #[test]
    fn missed_precision_names_the_budget_that_would_reach_it() {
        let mut run = of(&[("a", 100.0, 0.002), ("b", 100.0, 0.05)]);
        let reached = measured(&mut run, &format!("{PROBLEM}/b")).timing.as_ref().expect("timed").summary.precision();
        let said = precision(&run).expect("one is too wide");
        assert!(said.starts_with("1 of 2 results is noisier than ± 1.00 %: `--budget "), "{said}");
        let budget: f64 =
            said.split('`').nth(1).and_then(|s| s.split(' ').nth(1)).expect("a budget").parse().expect("a number");
        let exact = run.spec.budget * (reached / 0.01).powi(2);
        assert!((exact..exact * 1.1).contains(&budget), "{budget} for {exact}");
        run.spec.precision = Some(reached * 1.01);
        assert_eq!(precision(&run), None, "the requested precision");
    }

    #[test]
    fn beyond_ten_budgets_no_budget_is_advised() {
        let mut run = of(&[("a", 100.0, 0.05)]);
        let reached = measured(&mut run, &format!("{PROBLEM}/a")).timing.as_ref().expect("timed").summary.precision();
        for (times, budget) in [(9.0f64, true), (11.0, false), (1e9, false)] {
            run.spec.precision = Some(reached / times.sqrt());
            let said = precision(&run).expect("it is too wide");
            assert_eq!(said.contains("`--budget"), budget, "{times}: {said}");
            let names = said.contains("more time will not help") && said.contains("close other programs");
            assert_eq!(names, !budget, "{times}: {said}");
            let Some((_, advised)) = said.split_once("`--precision ") else { continue };
            let advised: f64 = advised.split('`').next().expect("its end").parse().expect("a number");
            assert!((reached..reached * 1.1).contains(&advised), "{advised} for {reached}");
        }
        let few = parallax_schema::testing::run("cuda", "X", &[(&format!("{PROBLEM}/a"), vec![1.0; 1])]);
        let said = precision(&few).expect("one is no interval");
        assert!(
            said.contains("more time will not help; choose smaller shapes") && !said.contains("--budget"),
            "{said}"
        );
    }

    #[test]
    fn too_few_samples_and_too_many_are_told_apart() {
        let case = format!("{PROBLEM}/a");
        let few = run("cuda", "X", &[(&case, vec![1.0; 4])]);
        let said = precision(&few).expect("four are no interval");
        assert!(
            said.contains("all of them with too few samples") && said.contains("`--budget 180` at least"),
            "{said}"
        );
        let mut many = of(&[("a", 100.0, 0.05), ("b", 100.0, 0.05)]);
        many.spec.budget = 1.0;
        for (case, budget) in [(case, true), (format!("{PROBLEM}/b"), false)] {
            measured(&mut many, &case).timing.as_mut().expect("timed").stopped = StopReason::Samples;
            let said = precision(&many).expect("noise");
            assert!(said.contains("only a quieter device helps"), "{said}");
            assert_eq!(said.contains("`--budget"), budget, "{said}");
        }
    }

    #[test]
    fn disturbances_are_told_only_where_they_matter() {
        let mut run = of(&[("a", 100.0, 0.002)]);
        let case = format!("{PROBLEM}/a");
        run.drift = drift(&spread(500.0, 0.002, 12));
        assert_eq!(disturbances(&run), None);
        run.drift = drift(&spread(500.0, 0.2, 12));
        assert!(disturbances(&run).expect("it wandered").contains("own speed varied by"));
        run.drift.clear();
        let timing = measured(&mut run, &case).timing.as_mut().expect("timed");
        timing.samples[0] = 900.0;
        assert_eq!(disturbances(&run), None, "one in forty is not many");
        let timing = measured(&mut run, &case).timing.as_mut().expect("timed");
        timing.samples[1] = 900.0;
        timing.samples[2] = 900.0;
        let discarded = |percent: usize| Discarded { time: 1.0, reason: format!("it took {percent} % longer") };
        timing.discarded = (8..11).map(discarded).collect();
        assert_eq!(
            disturbances(&run).expect("outliers"),
            format!(
                "3 samples were discarded (it took 8 % longer, and the like); 1 case has many outliers, up to 7.50 % of the \
                 samples of {case}"
            )
        );
        let timing = measured(&mut run, &case).timing.as_mut().expect("timed");
        timing.discarded.truncate(2);
        assert!(!disturbances(&run).expect("outliers").contains("discarded"), "two of 42 are not many");
    }
}

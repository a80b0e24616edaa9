//! Table of a comparison.

use parallax_analysis::compare::identity::{normalised, same_device};
use parallax_analysis::compare::verdict::{Ratio, Verdict, digits};
use parallax_analysis::compare::{Comparison, Figure, Pair};
use parallax_schema::grouped;
use parallax_schema::record::{NamedRun, Run};
use parallax_schema::units::{counted, percent};

use super::date::date;
use super::{Cell, Column, Mark, Rank, Remark, Table, Tone};

/// Returns whether a run was on another device than the base.
pub(super) fn elsewhere(comparison: &Comparison, run: usize) -> bool {
    let name = |i: usize| normalised(&comparison.runs[i].device);
    name(run) != name(comparison.base)
}

/// Returns a table of the compared runs, one line each, with a warning for every difference besides the code.
pub fn compared_runs(runs: &[NamedRun]) -> Table {
    let driver = |run: &Run| format!("{} {}", run.device().api, run.device().driver).trim().to_owned();
    let row = |NamedRun { name, run }: &NamedRun| {
        let commit = if run.suite.commit.is_empty() { "unknown" } else { &run.suite.commit };
        let begun = date(run.started).unwrap_or_else(|| "unknown".to_owned());
        vec![name.clone(), run.way(), run.called_in_full(), driver(run), commit.to_owned(), begun]
    };
    let row = |run| row(run).into_iter().map(Cell::from).collect();
    let columns = ["target", "device", "driver", "commit", "begun"].map(Column::label);
    let differ = |of: &dyn Fn(&Run) -> String| runs.iter().any(|NamedRun { run, .. }| of(run) != of(&runs[0].run));
    // Differences of drivers are remarkable only for runs of one target: different targets have different drivers.
    let one_target = !differ(&|run| run.target.clone());
    let begun = || runs.iter().map(|NamedRun { run, .. }| run.started);
    let apart = begun().max().zip(begun().min()).map_or(0, |(last, first)| (last - first) / DAY);
    let warnings = [
        runs.iter()
            .any(|NamedRun { run, .. }| !same_device(run, &runs[0].run))
            .then(|| "the devices differ".to_owned()),
        (one_target && differ(&driver)).then(|| "the drivers differ".to_owned()),
        (one_target && differ(&|run| run.way())).then(|| "the runs had different browser modes or checks".to_owned()),
        (apart > 0).then(|| format!("the runs began {apart} {} apart", if apart == 1 { "day" } else { "days" })),
    ];
    let warnings: Vec<String> = warnings.into_iter().flatten().collect();
    let warning = || format!("warning: {}: a difference may have other causes than the code", warnings.join(", "));
    Table {
        columns: std::iter::once(Column::text("run")).chain(columns).collect(),
        rows: runs.iter().map(row).collect(),
        notes: (!warnings.is_empty()).then(warning).into_iter().collect(),
        ..Table::default()
    }
}

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Returns a table with one line per pair. Utilisations stand beside the times if devices differ and both sides of some pair have
/// one, errors if those of some pair differ.
pub fn comparison_table(comparison: &Comparison) -> Table {
    let others: Vec<usize> = (0..comparison.runs.len()).filter(|i| *i != comparison.base).collect();
    let used = |pair: &Pair, i: usize| pair.figures[i].and_then(|f| f.utilisation);
    let by_use: Vec<usize> = others
        .iter()
        .copied()
        .filter(|i| elsewhere(comparison, *i))
        .filter(|i| comparison.pairs.iter().any(|p| used(p, *i).is_some() && used(p, comparison.base).is_some()))
        .collect();
    let name = |i: usize| comparison.runs[i].name.as_str();
    let mut columns = vec![Column::text("case")];
    columns.extend(comparison.runs.iter().map(|r| Column::figure(&r.name, Rank::Useful)));
    for i in &others {
        columns.push(Column::figure(&format!("{} ÷ {}", name(*i), name(comparison.base)), Rank::Essential));
        columns.push(Column::figure("MDE", Rank::Extra));
    }
    let use_columns: Vec<usize> = match by_use.is_empty() {
        true => Vec::new(),
        false => std::iter::once(comparison.base).chain(by_use).collect(),
    };
    columns.extend(use_columns.iter().map(|i| Column::figure(&format!("{}: of ceiling", name(*i)), Rank::Extra)));
    let erring = match comparison.pairs.iter().any(differ_in_precision) {
        true => (0..comparison.runs.len()).collect(),
        false => Vec::new(),
    };
    columns.extend(erring.iter().map(|i| Column::figure(&format!("{}: RMS error", name(*i)), Rank::Extra)));
    let dash = || "–".to_owned();
    let error = |figure: Option<Figure>| figure.and_then(|figure| figure.errors).map(|errors| errors.rms_in_words());
    let row = |pair: &Pair| {
        let mut row: Vec<Cell> = vec![pair.case.as_str().into()];
        row.extend(pair.figures.iter().map(|f| f.map_or_else(dash, |f| f.median.to_string()).into()));
        for i in &others {
            let ratio = pair.ratios[*i].as_ref();
            row.push(ratio.map_or_else(|| dash().into(), judged));
            row.push(ratio.and_then(|r| r.detectable).map_or_else(dash, percent).into());
        }
        row.extend(use_columns.iter().map(|i| used(pair, *i).map_or_else(dash, percent).into()));
        row.extend(erring.iter().map(|i| error(pair.figures[*i]).unwrap_or_else(dash).into()));
        row
    };
    let mut notes = vec![
        "ratios are times over the base's time, with an interval: below 1 is faster".to_owned(),
        "MDE: minimum detectable effect, the smallest change that the two runs could have shown".to_owned(),
    ];
    notes.extend(comparison.notes.iter().cloned());
    notes.extend(alone(comparison));
    notes.push(comparison.tally());
    // Columns: the case, a time for each run, and a ratio and an MDE for each run but the base.
    let column = |run: usize| 1 + comparison.runs.len() + 2 * others.iter().position(|o| *o == run).unwrap_or(0);
    let rows = comparison.pairs.iter().map(row).collect();
    Table { columns, rows, remarks: remarks(comparison, column), notes, ..Table::default() }
}

/// Largest ratio of two RMS errors that counts as the same precision.
const SAME_PRECISION: f64 = 1.05;

/// Returns whether the errors of two runs of a case differ, relative to the same bounds.
pub(super) fn differ_in_precision(pair: &Pair) -> bool {
    let errors = || pair.figures.iter().flatten().filter_map(|figure| Some(figure.errors?.rms_of_bound));
    let (least, most) = errors().fold((f64::INFINITY, 0.0f64), |(a, b), rms| (a.min(rms), b.max(rms)));
    most > least * SAME_PRECISION
}

/// Returns a table of the totals and of the largest differences, up to `most` in each direction.
pub fn comparison_brief(comparison: &Comparison, most: usize) -> Table {
    let shown = comparison.extremes(most);
    let mut table = comparison_table(&shown);
    let further = comparison.pairs.len() - shown.pairs.len();
    table.heading = vec![comparison.tally()];
    table.notes = comparison.notes.clone();
    table.notes.extend(alone_in_short(comparison));
    table.notes.push(format!("{further} more cases: --all; some of them: --filter"));
    table
}

/// Returns a ratio as a cell.
pub(super) fn judged(ratio: &Ratio) -> Cell {
    let tone = match ratio.verdict {
        Verdict::Same => Tone::Plain,
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::Undecided => Tone::Doubtful,
    };
    let short = format!("{}× {}", digits(ratio.value), ratio.verdict.name());
    Cell { tone, short: Some(short), ..ratio.to_string().into() }
}

/// Returns remarks on single pairs, one for each reason. One remark covers all resolutions that a reason sets.
pub(super) fn remarks(comparison: &Comparison, column: impl Fn(usize) -> usize) -> Vec<Remark> {
    struct Reason {
        run: usize,
        why: String,
        resolutions: Vec<f64>,
        marks: Vec<Mark>,
    }
    let mut reasons: Vec<Reason> = Vec::new();
    for (row, pair) in comparison.pairs.iter().enumerate() {
        for (run, ratio) in pair.ratios.iter().enumerate() {
            let Some(ratio) = ratio else { continue };
            let coarse = ratio.resolution.why().map(|why| (why.to_owned(), Some(ratio.resolution.value)));
            let said = ratio.resolution.note();
            let others = ratio.notes.iter().filter(|note| Some(*note) != said.as_ref());
            for (why, resolution) in coarse.into_iter().chain(others.map(|note| (note.clone(), None))) {
                let known = reasons.iter().position(|r| r.run == run && r.why == why);
                let at = known.unwrap_or_else(|| {
                    reasons.push(Reason { run, why, resolutions: Vec::new(), marks: Vec::new() });
                    reasons.len() - 1
                });
                reasons[at].resolutions.extend(resolution);
                reasons[at].marks.push(Mark { row, column: column(run), name: pair.case.clone() });
            }
        }
    }
    let remark = |reason: Reason| {
        let Reason { run, why, resolutions, marks } = reason;
        let name = &comparison.runs[run].name;
        let [least, most] = [f64::min, f64::max].map(|by| resolutions.iter().copied().reduce(by).map(percent));
        let text = match least.zip(most) {
            None => format!("{name}: {why}"),
            Some((least, most)) if least == most => format!("{name}: resolution {least}: {why}"),
            Some((least, most)) => format!("{name}: resolution {least} to {most}: {why}"),
        };
        Remark { text, marks }
    };
    reasons.into_iter().map(remark).collect()
}

/// Returns lines on the cases without a pair, by reason.
pub(super) fn alone(comparison: &Comparison) -> Vec<String> {
    let alone = comparison.unpaired.iter().map(|alone| {
        let where_and_why = format!("only in {} ({})", comparison.runs[alone.run].name, alone.reason);
        (where_and_why, alone.case.as_str())
    });
    grouped(alone).into_iter().map(|(what, cases)| format!("{what}: {}", cases.join(", "))).collect()
}

/// Returns lines with the number of cases without a pair, by reason.
fn alone_in_short(comparison: &Comparison) -> Vec<String> {
    let alone = comparison.unpaired.iter().map(|alone| ((alone.run, alone.reason.as_str()), ()));
    let line = |((run, reason), cases): ((usize, &str), Vec<()>)| {
        let cases = counted(cases.len(), "case");
        format!("{cases} only in {} ({reason})", comparison.runs[run].name)
    };
    grouped(alone).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::{Options, compare};
    use parallax_schema::device::BrowserMode;
    use parallax_schema::record::stats::Summary;
    use parallax_schema::testing::{measured, run, spread};

    const CASES: [&str; 3] = ["a/fwd/b1/f32/x", "a/fwd/b1/f32/y", "a/fwd/b1/f32/z"];

    fn both() -> [NamedRun; 2] {
        let cases = CASES.map(|case| (case, spread(100.0, 0.002, 40)));
        ["before", "after"].map(|name| NamedRun::new(name, run("cuda", "NVIDIA X", &cases)))
    }

    #[test]
    fn one_reason_is_one_remark_however_coarse_each_pair_is() {
        let mut runs = both();
        for (case, error) in [(CASES[0], 0.02), (CASES[2], 0.03)] {
            measured(&mut runs[1].run, case).timing.as_mut().expect("timed").clock_error = error;
        }
        let timing = measured(&mut runs[1].run, CASES[1]).timing.as_mut().expect("timed");
        timing.samples.truncate(4);
        timing.summary = Summary::of(&timing.samples).expect("samples");
        let table = comparison_table(&compare(&runs, &Options::default()).expect("pairs"));
        let cells = |remark: &Remark| remark.marks.iter().map(|m| (m.row, m.column)).collect::<Vec<_>>();
        let told: Vec<_> = table.remarks.iter().map(|r| (r.text.as_str(), cells(r))).collect();
        let ratios = table.columns.iter().position(|c| c.title == "after ÷ before").expect("a column");
        let want = [
            ("after: resolution 2.00 % to 3.00 %: the clocks' errors add up to that", vec![(0, ratios), (2, ratios)]),
            ("after: 4 of the 6 samples that an interval takes", vec![(1, ratios)]),
        ];
        assert_eq!(told, want);
        assert!(table.all_notes().contains(&format!("{}: {}", want[1].0, CASES[1])), "{:?}", table.all_notes());
    }

    #[test]
    fn runs_that_differ_in_more_than_code_are_warned_about() {
        type Change = fn(&mut Run);
        let cases: [(Change, &str); 7] = [
            (|run| run.started += 3600, ""),
            (|run| run.devices[0].name = "x".to_owned(), ""),
            (|run| run.devices[0].name = "NVIDIA Y".to_owned(), "the devices differ"),
            (|run| run.devices[0].driver = "2".to_owned(), "the drivers differ"),
            (|run| run.started += 3 * DAY, "the runs began 3 days apart"),
            (|run| run.reach = Some(BrowserMode::Unsafe), "the runs had different browser modes"),
            (
                |run| {
                    run.target = "wgpu".to_owned();
                    run.devices[0].driver = "2".to_owned();
                },
                "",
            ),
        ];
        for (change, want) in cases {
            let mut runs = both();
            change(&mut runs[1].run);
            let notes = compared_runs(&runs).notes.join("\n");
            assert_eq!(notes.is_empty(), want.is_empty(), "{notes}");
            assert!(notes.contains(want), "{notes} lacks {want}");
        }
    }
}

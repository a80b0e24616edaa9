//! Tables of records for readers.

use parallax_schema::case::{Rate, problem_of, variant_of};
use parallax_schema::catalog::Catalog;
use parallax_schema::device::Clock;
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::{CheckResult, Outcome, Record, Run};
use parallax_schema::units::{Nanos, percent, scaled};

use super::grid::{Cell, Column, Mark, Rank, Remark, Table, Tone};
use super::known::rate_of;
use super::{clocks, collectives, counters, energy};

/// One line of a run's table; every field is ready to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Case string without the variant.
    pub problem: String,
    /// Requested variant, and the variant that ran if it is another.
    pub variant: String,
    /// Median time of one execution, or a dash.
    pub median: String,
    /// Half width of the 95 % interval, as a percentage.
    pub interval: String,
    /// Rate in GFLOP/s or GB/s, by the workload.
    pub rate: String,
    /// Share of the binding ceiling and its name; a dash if no ceiling is known.
    pub ceiling: String,
    /// Root mean square of the errors in units in the last place or as a share of the bound, `exact`, or a dash.
    pub error: String,
    /// Largest error, in units in the last place and as a share of its bound; empty without one.
    pub worst: String,
    /// pass, FAIL, skipped, unresolved, impossible, ERROR.
    pub verdict: String,
    /// Clock of the samples, and its error per sample.
    pub clock: String,
    /// Reason of a skip, failure or substitution; empty otherwise.
    pub note: String,
}

/// Returns the rate of a case at a time, in the unit of its workload.
fn rate(record: &Record, told_in: Option<Rate>, time: Nanos) -> String {
    // For a workload of a newer version the rate is in bytes, which every case moves.
    match told_in {
        Some(Rate::Flops) => scaled(record.cost.flops.per(time), "FLOP/s"),
        Some(Rate::Ops) => scaled(record.cost.flops.per(time), "OP/s"),
        _ => scaled(record.cost.moved().per(time), "B/s"),
    }
}

/// Returns one record as a line of its run's table.
pub fn row(catalog: &dyn Catalog, record: &Record, run: &Run) -> Row {
    row_in(record, rate_of(catalog, record), run)
}

/// Returns a line of the table for a known unit of the workload's speed.
pub fn row_in(record: &Record, told_in: Option<Rate>, run: &Run) -> Row {
    let dash = || "–".to_owned();
    let (problem, variant) = (problem_of(&record.case), variant_of(&record.case));
    let variant = match &record.actual {
        Some(actual) => format!("{variant} → {}", actual.variant),
        None => variant.to_owned(),
    };
    let timing = record.timing();
    let check = record.measured().map(|measured| &measured.check);
    let note = match &record.outcome {
        Outcome::Pass(_) => record.actual.as_ref().map(|a| a.reason.clone()).unwrap_or_default(),
        Outcome::Fail { check } => check.sentence(),
        Outcome::Skipped { reason } | Outcome::Error { reason } | Outcome::Refused { reason, .. } => reason.clone(),
    };
    Row {
        problem: problem.to_owned(),
        variant,
        median: timing.map_or_else(dash, |t| t.summary.median.to_string()),
        interval: timing
            .map(|t| t.summary.precision())
            .filter(|p| p.is_finite())
            .map_or_else(dash, |p| format!("± {}", percent(p))),
        rate: timing.map_or_else(dash, |t| rate(record, told_in, t.summary.median)),
        ceiling: record
            .measured()
            .and_then(|m| m.analysis.as_ref())
            .map_or_else(dash, |a| format!("{} {}", percent(a.utilisation), a.bound.name())),
        error: check.and_then(CheckResult::precision).unwrap_or_else(dash),
        worst: check.and_then(CheckResult::worst).unwrap_or_default(),
        verdict: record.verdict().to_owned(),
        clock: timing.map_or_else(dash, |t| {
            let error = match t.clock_error {
                0.0 => String::new(),
                e if e < 1e-5 => " ± < 0.001 %".to_owned(),
                e => format!(" ± {}", percent(e)),
            };
            format!("{}{error}", run.clock.clock.label())
        }),
        note,
    }
}

/// Returns the columns of a run's table, in the order of [`cells`].
fn columns() -> Vec<Column> {
    vec![
        Column::text("case"),
        Column::label("variant"),
        Column::figure("median", Rank::Essential),
        Column::figure("95 %", Rank::Useful),
        Column::figure("rate", Rank::Extra),
        Column::figure("of ceiling", Rank::Extra),
        Column::figure("RMS error", Rank::Extra),
        Column::figure("verdict", Rank::Essential),
        Column { folds: true, ..Column::figure("clock", Rank::Extra) },
    ]
}

/// Position of the error among the columns.
const ERROR: usize = 6;
/// Position of the verdict among the columns.
const VERDICT: usize = 7;

/// Returns the cells of a row, in the order of [`columns`]. The note stands on a line of its own.
fn cells(row: &Row, short: bool) -> Vec<Cell> {
    let Row { problem, variant, median, interval, rate, ceiling, error, verdict, clock, .. } = row;
    let texts = [problem, variant, median, interval, rate, ceiling, error, verdict, clock];
    let mut cells: Vec<Cell> = texts.into_iter().map(Cell::from).collect();
    cells[ERROR].more = Some(row.worst.clone()).filter(|worst| !worst.is_empty());
    cells[VERDICT].tone = match row.verdict.as_str() {
        "pass" if short => Tone::Doubtful,
        "pass" => Tone::Good,
        "unresolved" => Tone::Doubtful,
        _ => Tone::Bad,
    };
    cells
}

/// Returns the number of records with each outcome, as one sentence.
pub fn tally(run: &Run) -> String {
    let count = |verdict: &str| run.records.iter().filter(|r| r.verdict() == verdict).count();
    let missing = run.missing().count();
    let mut parts = vec![format!("{} pass", count("pass"))];
    for (n, what) in [
        (count("FAIL"), "FAIL"),
        (count("ERROR"), "ERROR"),
        (count("unresolved"), "not resolved by the clock"),
        (count("impossible"), "impossible"),
        (count("skipped"), "skipped"),
        (missing, "not reached"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    parts.join(", ")
}

/// Returns skips by reason, one line each, in the order in which the reasons first occur. A case is named if it is the only one
/// with its reason.
pub fn skips<'a>(skips: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let line = |(reason, cases): (&str, Vec<&str>)| match cases[..] {
        [case] => format!("1 skipped: {case}: {reason}"),
        _ => format!("{} skipped: {reason}", cases.len()),
    };
    parallax_schema::grouped(skips.into_iter().map(|(case, reason)| (reason, case))).into_iter().map(line).collect()
}

/// Returns the skips among a run's records, by reason.
pub fn skipped(run: &Run) -> Vec<String> {
    skips(run.records.iter().filter_map(|record| match &record.outcome {
        Outcome::Skipped { reason } => Some((record.case.as_str(), reason.as_str())),
        _ => None,
    }))
}

/// Returns whether a record has its own row in tables. Skips are listed by reason below them.
pub fn has_row(record: &Record) -> bool {
    !matches!(record.outcome, Outcome::Skipped { .. })
}

/// Function from a record to its cells in some columns.
type CellsOf<'a> = &'a dyn Fn(&Record) -> Vec<Cell>;

/// Returns the table of a run: its device, a line per case, and the reasons of everything that did not plainly pass. Skipped cases
/// have a line per reason.
pub fn table(catalog: &dyn Catalog, run: &Run) -> Table {
    let mut records = run.as_planned();
    records.retain(|r| has_row(r));
    let rows: Vec<Row> = records.iter().map(|record| row(catalog, record, run)).collect();
    let reasons = rows.iter().filter(|r| !r.note.is_empty());
    let mut notes: Vec<String> = reasons.map(|r| format!("{}/{}: {}", r.problem, r.variant, r.note)).collect();
    notes.extend(skipped(run));
    notes.extend(super::items(run));
    notes.extend(super::energy(run));
    notes.extend(clocks::clocks(run));
    notes.extend(counters::counters(run));
    notes.extend(super::scores(run));
    notes.extend(super::repeats(run));
    notes.push(tally(run));
    notes.extend(ended_early(run));
    notes.extend(run.interrupted.as_ref().and_then(|_| cut_off(run)));
    let short: Vec<bool> = records.iter().map(|r| super::short_of_precision(r, run)).collect();
    let marks = records.iter().enumerate().filter(|(i, _)| short[*i]);
    let marks = marks.map(|(row, record)| Mark { row, column: VERDICT, name: record.case.clone() });
    let aim = format!("short of the requested precision, ± {}", percent(super::aim(run)));
    // Columns that some runs have.
    let some: [(Vec<Column>, CellsOf); 4] = [
        (collectives::columns(run), &|record| collectives::cells(record).to_vec()),
        (energy::columns(run), &|record| energy::cells(record, rate_of(catalog, record)).to_vec()),
        (clocks::columns(run), &|record| clocks::cells(record).to_vec()),
        (counters::columns(run), &|record| counters::cells(record).to_vec()),
    ];
    let cells_of = |record: &Record| -> Vec<Cell> {
        some.iter().filter(|(columns, _)| !columns.is_empty()).flat_map(|(_, cells)| cells(record)).collect()
    };
    let rows = rows.iter().zip(&short).zip(&records);
    let all = |row: &Row, short, record| [cells(row, short), cells_of(record)].concat();
    let rows = rows.map(|((row, short), record)| all(row, *short, record)).collect();
    Table {
        heading: heading(run),
        columns: columns().into_iter().chain(some.iter().flat_map(|(columns, _)| columns.clone())).collect(),
        rows,
        grouped: true,
        remarks: Remark::some(aim, marks.collect()).into_iter().collect(),
        notes,
    }
}

/// Returns the reason for an early end of a run, and the cases that it did not reach.
pub fn ended_early(run: &Run) -> Option<String> {
    let why = run.interrupted.as_ref()?;
    let missing: Vec<&str> = run.missing().collect();
    let not_reached = if missing.is_empty() { String::new() } else { format!("; not reached: {}", missing.join(", ")) };
    Some(format!("ended early: {why}{not_reached}"))
}

/// Returns a remark on cases with samples from before a run was killed.
fn cut_off(run: &Run) -> Option<String> {
    let cases = run.records.iter().filter(|record| record.cut_off()).count();
    (cases > 0).then(|| {
        format!("{cases} cut off with the run, and not checked a second time; `parallax run --resume FILE` measures them anew")
    })
}

/// Returns device, clocks and ceilings for the lines above every table of a run.
pub fn heading(run: &Run) -> Vec<String> {
    let mut lines = vec![device_line(run), clock_line(run)];
    let unusual = run.spec.launch.filter(|launch| !launch.is_usual());
    lines.extend(unusual.map(|launch| format!("launched as {}, which is not the usual way", launch.name())));
    if let Some(baseline) = &run.baseline {
        let test = parallax_schema::record::sentence(&baseline.timer);
        lines.extend((!test.is_empty()).then_some(test));
        lines.extend(ceilings_line(&baseline.ceilings));
    }
    lines
}

/// Ceiling of a device in words.
pub struct Ceiling {
    /// Name of the limited quantity.
    pub name: String,
    /// The limit, with its unit.
    pub value: String,
    /// Place or probe of the measurement; empty if there is none.
    pub detail: String,
}

/// Returns every measured ceiling. The latency of completion belongs to the self-test of the clocks and stands there.
pub fn ceilings(ceilings: &Ceilings) -> Vec<Ceiling> {
    let mut list = Vec::new();
    let mut add = |name: String, value: String, detail: String| list.push(Ceiling { name, value, detail });
    let plain = String::new;
    let largest = ceilings.bandwidth.last();
    let fastest = ceilings.bandwidth.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
    let in_caches = fastest.filter(|f| largest.is_some_and(|l| l.working_set != f.working_set));
    for (name, found) in [("memory", largest), ("caches", in_caches)] {
        let Some(b) = found else { continue };
        add(name.to_owned(), scaled(b.rate, "B/s"), format!("at {} ({})", b.working_set, b.probe));
    }
    if let Some(cache) = &ceilings.cache {
        let from = if cache.from_driver { "from the driver" } else { "where bandwidth falls" };
        add("last cache".to_owned(), cache.capacity.to_string(), from.to_owned());
    }
    for a in &ceilings.arithmetic {
        let units = if a.matrix { " matrix" } else { "" };
        add(format!("{}{units}", a.dtype.name()), scaled(a.rate, "FLOP/s"), format!("({})", a.probe));
    }
    ceilings.dispatch.into_iter().for_each(|t| add("dispatch".to_owned(), t.to_string(), plain()));
    for (name, points) in [("link up", &ceilings.link.up), ("link down", &ceilings.link.down)] {
        let fastest = points.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
        fastest.into_iter().for_each(|b| {
            add(name.to_owned(), scaled(b.rate, "B/s"), format!("at {} ({})", b.working_set, b.probe));
        });
    }
    for (name, rate) in [("upload", ceilings.upload), ("download", ceilings.download)] {
        rate.into_iter().for_each(|r| add(name.to_owned(), scaled(r, "B/s"), plain()));
    }
    list
}

/// Returns the ceilings in one line, if any were measured.
fn ceilings_line(measured: &Ceilings) -> Option<String> {
    let parts: Vec<String> = ceilings(measured).into_iter().map(|c| format!("{} {}", c.name, c.value)).collect();
    (!parts.is_empty()).then(|| format!("ceilings: {}", parts.join(", ")))
}

/// Returns the device in one line.
pub fn device_line(run: &Run) -> String {
    let device = run.device();
    let driver = if device.driver.is_empty() { String::new() } else { format!(", {}", device.driver) };
    let software = if device.kind == parallax_schema::device::DeviceKind::Software { ", software" } else { "" };
    format!("{} ({}{driver}{software}) as target {}", run.called_in_full(), device.api, run.way())
}

/// Returns the clocks in one line, each with its step, which is the error of a single reading.
pub fn clock_line(run: &Run) -> String {
    let note = run.clock.note.as_deref().map(|n| format!(" ({n})")).unwrap_or_default();
    let told = |name: &str, step: Nanos| format!("{name} clock, steps of {step}");
    let host = told(Clock::Host.label(), run.clock.host_step);
    match run.clock.clock {
        Clock::Host => format!("{host}{note}"),
        other => format!("{}; {host}{note}", told(other.label(), run.clock.step)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::Errors;
    use parallax_schema::testing::{measured, run, spread};

    #[test]
    fn a_row_has_the_error_of_its_outputs() {
        const CASE: &str = "copy/fwd/n64/f32/vec4";
        let errors = Errors { rms: 1e-3, rms_of_bound: 0.1, worst_ulps: 1.25, rms_ulps: 0.3 };
        for (errors, worst_error, want) in [
            (Some(errors), 0.01, ("0.30 ulp", "at most 1.25 ulp, 20.0 % of its bound")),
            (Some(errors), 0.0, ("exact", "")),
            (Some(Errors { worst_ulps: 1e30, ..errors }), 0.01, ("0.30 ulp", "at most 20.0 % of its bound")),
            (
                Some(Errors { worst_ulps: 1e36, rms_ulps: 1e30, ..errors }),
                0.01,
                ("10.0 % of bound", "at most 20.0 % of its bound"),
            ),
            (None, 0.01, ("–", "")),
        ] {
            let mut run = run("cuda", "X", &[(CASE, spread(100.0, 0.002, 40))]);
            let check = &mut measured(&mut run, CASE).check;
            (check.errors, check.worst_error, check.worst_ratio) = (errors, worst_error, 0.2);
            let row = row_in(&run.records[0], None, &run);
            assert_eq!((row.error.as_str(), row.worst.as_str()), want);
        }
    }

    #[test]
    fn a_clock_is_told_once() {
        let mut run = run("cuda", "X", &[]);
        for (clock, want) in [
            (Clock::GpuTimestamps, "gpu clock, steps of 2.00 ns; host clock, steps of 30.0 ns (a note)"),
            (Clock::Host, "host clock, steps of 30.0 ns (a note)"),
        ] {
            run.clock = parallax_schema::device::ClockInfo {
                clock,
                step: if clock == Clock::Host { Nanos(30.0) } else { Nanos(2.0) },
                host_step: Nanos(30.0),
                note: Some("a note".to_owned()),
                ..run.clock
            };
            assert_eq!(clock_line(&run), want);
        }
    }
}

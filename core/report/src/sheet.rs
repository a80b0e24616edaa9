//! Spreadsheet of runs: one row per case and run, every key figure in full precision.

mod samples;

pub use samples::{SampleRow, samples};

use parallax_analysis::compare::Comparison;
use parallax_analysis::compare::scores::Change;
use parallax_analysis::compare::verdict::Verdict;
use parallax_schema::case::variant_of;
use parallax_schema::device::{Clock, EnergySource};
use parallax_schema::record::roofline::Bound;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{
    Better, Method, NamedRun, OneCall, Outcome, Record, Repeatable, Run, Score, Timing, WGSL_CHECKS, host,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::escape_field;

/// One case in one run. Missing figures are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SheetRow {
    /// Canonical string.
    pub case: String,
    /// Name of the workload.
    pub workload: String,
    /// `fwd` or `bwd`.
    pub direction: String,
    /// Element type.
    pub dtype: String,
    /// Requested variant.
    pub variant: String,
    /// Variant that ran.
    pub actual_variant: String,
    /// Name of the run.
    pub run: String,
    /// Target of the run.
    pub target: String,
    /// Browser mode, if the run is from a browser and its mode is known: stock, developer or unsafe.
    pub reach: Option<String>,
    /// Name of the device.
    pub device: String,
    /// Outcome of the case: pass, FAIL, skipped, unresolved, impossible or ERROR.
    pub outcome: String,
    /// Median time of one execution.
    pub median_ns: Option<f64>,
    /// 95 % interval of the median, low end.
    pub low_ns: Option<f64>,
    /// 95 % interval of the median, high end.
    pub high_ns: Option<f64>,
    /// Smallest sample.
    pub min_ns: Option<f64>,
    /// Largest sample.
    pub max_ns: Option<f64>,
    /// Number of valid samples.
    pub n: Option<u32>,
    /// Number of discarded samples.
    #[serde(alias = "set_aside")]
    pub discarded: Option<usize>,
    /// Number of executions in one sample.
    pub repeats: Option<u32>,
    /// Method that derives the time of one execution from a sample.
    pub method: Option<Method>,
    /// State of the caches: `hot` or `cold`.
    pub cache: String,
    /// Clock of the samples.
    pub clock: Option<Clock>,
    /// Error of one sample by the clock's step, as a share of the sample.
    pub clock_error: Option<f64>,
    /// Fixed cost of a submission, on the host's clock.
    pub host_fixed_ns: Option<f64>,
    /// Median time of a single call until its completion is known.
    pub call_done_ns: Option<f64>,
    /// Median time of a single call until the first bytes of its result are on the host.
    pub call_result_ns: Option<f64>,
    /// Operations per second at the median.
    pub flops_per_s: Option<f64>,
    /// Bytes per second at the median.
    pub bytes_per_s: Option<f64>,
    /// Name of the workload's items, in the plural; empty for most workloads.
    pub items: Option<String>,
    /// Items per second at the median.
    pub items_per_s: Option<f64>,
    /// Median clock of the multiprocessors after samples, in MHz.
    #[serde(default)]
    pub sm_clock_mhz: Option<f64>,
    /// Lowest clock of the multiprocessors.
    #[serde(default)]
    pub sm_clock_low_mhz: Option<f64>,
    /// Highest clock of the multiprocessors.
    #[serde(default)]
    pub sm_clock_high_mhz: Option<f64>,
    /// Median clock of the device memory after samples, in MHz.
    #[serde(default)]
    pub memory_clock_mhz: Option<f64>,
    /// Median power of the board after samples, in watts.
    #[serde(default)]
    pub board_power_w: Option<f64>,
    /// Share of samples with reduced clocks.
    #[serde(default)]
    pub throttled: Option<f64>,
    /// Median energy of one execution, in joules.
    #[serde(default)]
    pub energy_j: Option<f64>,
    /// 95 % interval of the energy, low end.
    #[serde(default)]
    pub energy_low_j: Option<f64>,
    /// 95 % interval of the energy, high end.
    #[serde(default)]
    pub energy_high_j: Option<f64>,
    /// Mean power during executions, in watts.
    #[serde(default)]
    pub power_w: Option<f64>,
    /// Power before the first case, at rest.
    #[serde(default)]
    pub idle_w: Option<f64>,
    /// Mean of the power samples over the same time as `power_w`.
    #[serde(default)]
    pub sampled_power_w: Option<f64>,
    /// Operations per joule.
    #[serde(default)]
    pub flops_per_j: Option<f64>,
    /// Items per joule.
    #[serde(default)]
    pub items_per_j: Option<f64>,
    /// Origin of the energy: `nvml` or `rapl`.
    #[serde(default)]
    pub energy_source: Option<EnergySource>,
    /// Reason of the absence of energy, where it was asked for.
    #[serde(default)]
    pub no_energy: Option<String>,
    /// Peak device memory.
    pub peak_memory_bytes: Option<u64>,
    /// Largest error of an output.
    #[serde(default)]
    pub worst_error: Option<f64>,
    /// Largest error relative to its bound.
    #[serde(default)]
    pub worst_of_bound: Option<f64>,
    /// Root mean square of the errors.
    #[serde(default)]
    pub rms_error: Option<f64>,
    /// Largest error in units in the last place.
    #[serde(default)]
    pub worst_ulps: Option<f64>,
    /// Root mean square of the errors in units in the last place.
    #[serde(default)]
    pub rms_ulps: Option<f64>,
    /// Whether the last execution gave the same bits as the first.
    pub repeatable: Option<bool>,
    /// Difference of the last execution from the first, relative to the error bound; absent for equal bits.
    pub repeat_of_bound: Option<f64>,
    /// Operations per byte that must move.
    pub intensity: Option<f64>,
    /// Shortest time that the ceilings allow.
    pub floor_ns: Option<f64>,
    /// Share of the binding ceiling.
    pub utilisation: Option<f64>,
    /// Binding ceiling of the case.
    pub bound: Option<Bound>,
    /// Name of the base of the ratios.
    pub base: Option<String>,
    /// Median over the base's.
    pub ratio: Option<f64>,
    /// Interval of the ratio, low end.
    pub ratio_low: Option<f64>,
    /// Interval of the ratio, high end.
    pub ratio_high: Option<f64>,
    /// Verdict on the ratio.
    pub verdict: Option<Verdict>,
    /// Smallest difference that counts, as a share of the time.
    pub resolution: Option<f64>,
    /// Smallest change with a verdict between the two runs, as a share of the time.
    #[serde(rename = "minimum_detectable_effect", alias = "detectable")]
    pub detectable: Option<f64>,
    /// Name of the score of this row; such a row has no times.
    pub score: Option<String>,
    /// Value of the score.
    pub score_value: Option<f64>,
    /// 95 % interval of the score, low end.
    pub score_low: Option<f64>,
    /// 95 % interval of the score, high end.
    pub score_high: Option<f64>,
    /// Direction in which the score is better.
    pub score_better: Option<Better>,
    /// Number of items of the score.
    pub score_items: Option<u64>,
    /// Score less the base's score.
    pub difference: Option<f64>,
    /// Interval of the difference, low end.
    pub difference_low: Option<f64>,
    /// Interval of the difference, high end.
    pub difference_high: Option<f64>,
    /// Verdict on the difference.
    pub change: Option<Change>,
    /// Reasons of skips, errors, substitutions and verdicts.
    pub reasons: String,
    /// Seconds since 1970 (UTC) at the begin of the run.
    #[serde(default)]
    pub started: u64,
    /// Commit of the program, with a digest of the changes of its tree.
    #[serde(default)]
    pub commit: String,
    /// Interface and driver of the device.
    #[serde(default)]
    pub driver: String,
    /// Class of the device.
    #[serde(default)]
    pub device_class: String,
    /// Identifier or address of the device.
    #[serde(default)]
    pub device_id: Option<String>,
    /// Browser with its version.
    #[serde(default)]
    pub browser: Option<String>,
    /// Checks that kernels keep on a native target.
    #[serde(default)]
    pub checks: Option<String>,
    /// Tunables of the variant that differ from the defaults, as in `BLOCK_K=8, STAGES=3`.
    #[serde(default)]
    pub tuning: Option<String>,
    /// Hash of the final kernel sources.
    #[serde(default)]
    pub kernel_sources: Option<String>,
    /// Name of the machine.
    #[serde(default)]
    pub host: Option<String>,
    /// Name of the processor.
    #[serde(default)]
    pub processor: Option<String>,
    /// Number of processors that the run could use.
    #[serde(default)]
    pub processors: Option<u32>,
    /// Memory of the machine.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Kind of the container.
    #[serde(default)]
    pub container: Option<String>,
    /// Scheduler or service with the identity of the job.
    #[serde(default)]
    pub job: Option<String>,
    /// Rank of the process in its job.
    #[serde(default)]
    pub rank: Option<u32>,
}

/// Returns a row for every record of every run and one for each of its scores, with ratios if there is a comparison.
pub fn rows(runs: &[NamedRun], comparison: Option<&Comparison>) -> Vec<SheetRow> {
    let of_run = |(i, NamedRun { name, run }): (usize, &NamedRun)| {
        let of_record = |record| {
            let scores = Record::scores(record).into_iter();
            let scores =
                scores.map(move |score| score_row(row(i, name, run, record, None, comparison), i, &score, comparison));
            std::iter::once(row(i, name, run, record, record.timing(), comparison)).chain(scores)
        };
        run.records.iter().flat_map(of_record).collect::<Vec<_>>()
    };
    runs.iter().enumerate().flat_map(of_run).collect()
}

/// Returns a row of a score: the record's row without its times.
fn score_row(row: SheetRow, i: usize, score: &Score, comparison: Option<&Comparison>) -> SheetRow {
    let pair = comparison.and_then(|c| c.scores.iter().find(|p| p.case == row.case && p.name == score.name));
    let difference = pair.and_then(|p| p.differences[i].as_ref());
    SheetRow {
        score: Some(score.name.clone()),
        score_value: Some(score.value),
        score_low: Some(score.low),
        score_high: Some(score.high),
        score_better: Some(score.better),
        score_items: Some(score.items),
        base: difference.and(comparison).map(|c| c.runs[c.base].name.clone()),
        difference: difference.map(|d| d.value),
        difference_low: difference.map(|d| d.low),
        difference_high: difference.map(|d| d.high),
        change: difference.map(|d| d.verdict),
        resolution: difference.map(|d| d.resolution),
        detectable: difference.map(|d| d.minimum_detectable_effect),
        reasons: difference.map(|d| d.notes.join("; ")).unwrap_or_default(),
        ..row
    }
}

fn row(
    i: usize,
    name: &str,
    run: &Run,
    record: &Record,
    timing: Option<&Timing>,
    comparison: Option<&Comparison>,
) -> SheetRow {
    let summary = timing.map(|t| t.summary);
    let call = record.measured().and_then(|measured| measured.call.as_ref());
    let called = |of: fn(&OneCall) -> Option<Summary>| Some(of(call?)?.median.0);
    let check = timing.and(record.measured()).map(|measured| &measured.check);
    let errors = check.and_then(|check| check.errors);
    let repeatable = timing.and(record.measured()).and_then(|m| m.check.repeatable);
    let analysis = timing.and(record.measured()).and_then(|m| m.analysis.as_ref());
    let energy = timing.and(record.energy());
    let clocks = timing.and_then(Timing::clocks);
    let sm = clocks.and_then(|clocks| clocks.sm_mhz);
    let ratio = comparison.and_then(|c| c.ratio(i, &record.case)).filter(|_| timing.is_some());
    let unpaired = comparison.and_then(|c| c.unpaired.iter().find(|u| u.run == i && u.case == record.case));
    let mut reasons = Vec::new();
    match &record.outcome {
        Outcome::Pass(_) => {}
        Outcome::Fail { check } => reasons.push(check.sentence()),
        Outcome::Skipped { reason } | Outcome::Error { reason } | Outcome::Refused { reason, .. } => {
            reasons.push(reason.clone());
        }
    }
    reasons.extend(record.actual.as_ref().map(|a| a.reason.clone()));
    reasons.extend(ratio.into_iter().flat_map(|r| r.notes.clone()));
    reasons.extend(unpaired.map(|u| u.reason.clone()));
    SheetRow {
        case: record.case.clone(),
        workload: record.parts.workload.clone(),
        direction: record.parts.direction.clone(),
        dtype: record.parts.dtype.name().to_owned(),
        variant: record.parts.variant.clone(),
        actual_variant: record.actual.as_ref().map_or(&record.parts.variant, |a| &a.variant).clone(),
        run: name.to_owned(),
        target: run.target.clone(),
        reach: run.reach.map(|reach| reach.name().to_owned()),
        device: run.device().name.clone(),
        outcome: record.verdict().to_owned(),
        median_ns: summary.map(|s| s.median.0),
        low_ns: summary.map(|s| s.low.0),
        high_ns: summary.map(|s| s.high.0),
        min_ns: summary.map(|s| s.min.0),
        max_ns: summary.map(|s| s.max.0),
        n: summary.map(|s| s.n),
        discarded: timing.map(|t| t.discarded.len()),
        repeats: timing.map(|t| t.repeats),
        method: timing.map(|t| t.method),
        cache: timing.map_or("", |t| t.cache.name()).to_owned(),
        clock: timing.map(|_| run.clock.clock),
        clock_error: timing.map(|t| t.clock_error),
        host_fixed_ns: timing.and_then(|t| t.slope.as_ref()).map(|s| s.host_fixed.0),
        call_done_ns: called(OneCall::done),
        call_result_ns: called(OneCall::result),
        flops_per_s: summary.map(|s| record.cost.flops.per(s.median)),
        bytes_per_s: summary.map(|s| record.cost.moved().per(s.median)),
        items: record.items.as_ref().map(|items| items.name.clone()),
        items_per_s: record.items.as_ref().zip(summary).map(|(items, s)| items.per_second(s.median)),
        sm_clock_mhz: sm.map(|range| range.median),
        sm_clock_low_mhz: sm.map(|range| range.low),
        sm_clock_high_mhz: sm.map(|range| range.high),
        memory_clock_mhz: clocks.and_then(|clocks| clocks.memory_mhz).map(|range| range.median),
        board_power_w: clocks.and_then(|clocks| clocks.power_w).map(|range| range.median),
        throttled: clocks.map(|clocks| clocks.throttled),
        energy_j: energy.map(|e| e.joules),
        energy_low_j: energy.map(|e| e.low),
        energy_high_j: energy.map(|e| e.high),
        power_w: energy.map(|e| e.watts),
        idle_w: energy.map(|e| e.idle_watts),
        sampled_power_w: energy.and_then(|e| e.integrated_watts),
        flops_per_j: energy.map(|e| record.cost.flops.0 as f64 / e.joules).filter(|rate| *rate > 0.0),
        items_per_j: record.items.as_ref().zip(energy).map(|(items, e)| items.count as f64 / e.joules),
        energy_source: energy.map(|e| e.source),
        no_energy: timing.and(record.no_energy()).map(str::to_owned),
        peak_memory_bytes: timing.and(record.measured()).map(|m| m.memory.peak.0),
        worst_error: check.map(|check| check.worst_error),
        worst_of_bound: check.map(|check| check.worst_ratio),
        rms_error: errors.map(|errors| errors.rms),
        worst_ulps: errors.map(|errors| errors.worst_ulps),
        rms_ulps: errors.map(|errors| errors.rms_ulps),
        repeatable: repeatable.map(|r| r == Repeatable::Bitwise),
        repeat_of_bound: repeatable.and_then(|r| match r {
            Repeatable::Bitwise => None,
            Repeatable::Differs(difference) => Some(difference.of_bound),
        }),
        intensity: analysis.map(|a| a.intensity),
        floor_ns: analysis.map(|a| a.floor.0),
        utilisation: analysis.map(|a| a.utilisation),
        bound: analysis.map(|a| a.bound),
        base: ratio.and(comparison).map(|c| c.runs[c.base].name.clone()),
        ratio: ratio.map(|r| r.value),
        ratio_low: ratio.and_then(|r| r.low),
        ratio_high: ratio.and_then(|r| r.high),
        verdict: ratio.map(|r| r.verdict),
        resolution: ratio.map(|r| r.resolution.value),
        detectable: ratio.and_then(|r| r.detectable),
        score: None,
        score_value: None,
        score_low: None,
        score_high: None,
        score_better: None,
        score_items: None,
        difference: None,
        difference_low: None,
        difference_high: None,
        change: None,
        reasons: reasons.join("; "),
        ..identity(run, record)
    }
}

/// Returns the identity of a record alone: program, device, host and job.
fn identity(run: &Run, record: &Record) -> SheetRow {
    let fact = |key: &str| run.environment.get(key).filter(|value| !value.is_empty()).cloned();
    let device = run.device_of(record);
    let tuning = device.caps.tuning.of_variant(&record.parts.workload, variant_of(&record.case));
    SheetRow {
        started: run.started,
        commit: run.suite.commit.clone(),
        driver: device.interface(),
        device_class: device.class(),
        device_id: device.identity.card().map(str::to_owned),
        browser: run.browser_in_full(),
        checks: fact(WGSL_CHECKS),
        tuning: Some(tuning).filter(|tuning| !tuning.is_empty()),
        kernel_sources: record.measured().map(|m| m.compiled.text_hash.clone()).filter(|hash| !hash.is_empty()),
        host: fact(host::NAME),
        processor: fact(host::PROCESSOR),
        processors: fact(host::PROCESSORS).and_then(|count| count.parse().ok()),
        memory_bytes: fact(host::MEMORY).and_then(|bytes| bytes.parse().ok()),
        container: fact(host::CONTAINER),
        job: fact(host::JOB),
        rank: fact(host::RANK).and_then(|rank| rank.parse().ok()),
        ..SheetRow::default()
    }
}

/// Returns the rows as comma-separated values with a line of titles (RFC 4180). Control characters and formulas are escaped.
pub fn csv<Row: Serialize>(rows: &[Row]) -> String {
    let mut plain = csv::Writer::from_writer(Vec::new());
    for row in rows {
        plain.serialize(row).expect("rows of plain fields, written to memory");
    }
    let plain = plain.into_inner().expect("memory does not fail");
    // Text fields are known only after serialisation.
    let mut safe = csv::Writer::from_writer(Vec::new());
    for record in csv::ReaderBuilder::new().has_headers(false).from_reader(&plain[..]).records() {
        let record = record.expect("its own writer's");
        safe.write_record(record.iter().map(|field| escape_field(field).into_owned())).expect("as many fields");
    }
    let bytes = safe.into_inner().expect("memory does not fail");
    String::from_utf8(bytes).expect("text in, text out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::{Options, compare};
    use parallax_schema::testing::{measured, run, score, spread};

    const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";

    #[test]
    fn every_score_has_a_row_of_its_own() {
        let mut runs = [("a", 0.9), ("b", 0.8)].map(|(name, accuracy)| {
            let mut run = run("cuda", "X", &[(CASE, spread(100.0, 0.001, 30))]);
            measured(&mut run, CASE).scores = vec![score("accuracy", accuracy, Better::Higher)];
            NamedRun::new(name, run)
        });
        measured(&mut runs[1].run, CASE).scores.push(score("F1", 0.5, Better::Higher));
        let comparison = compare(&runs, &Options::default()).expect("pairs");
        let written = rows(&runs, Some(&comparison));
        let text = csv(&written);
        let read: Vec<SheetRow> =
            csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().expect("its own reader");
        assert_eq!(read, written);
        let told: Vec<_> = read.iter().map(|r| (r.score.as_deref(), r.score_value, r.change)).collect();
        let worse = (Some("accuracy"), Some(0.8), Some(Change::Worse));
        let alone = (Some("F1"), Some(0.5), None);
        assert_eq!(told, [(None, None, None), (Some("accuracy"), Some(0.9), None), (None, None, None), worse, alone]);
        assert!(read[3].median_ns.is_none() && read[3].utilisation.is_none() && read[2].median_ns.is_some());
    }

    #[test]
    fn items_a_second_follow_from_the_median() {
        let mut run = run("cuda", "X", &[(CASE, spread(2000.0, 0.001, 30))]);
        run.records[0].items = Some(parallax_schema::record::Items { name: "samples".to_owned(), count: 8 });
        let written = rows(&[NamedRun::new("a", run)], None);
        let rate = written[0].items_per_s.expect("a figure");
        assert!(written[0].items.as_deref() == Some("samples") && (rate - 4e6).abs() < 1.0, "{rate}");
    }

    #[test]
    fn rows_survive_their_file_in_full_precision() {
        let mut runs = [("a", 100.0), ("b, \"quoted\"", 100.0 * (7.0 / 3.0))]
            .map(|(name, time)| NamedRun::new(name, run("cuda", "X", &[(CASE, spread(time, 0.001, 30))])));
        let mut skipped = runs[1].run.records[0].clone();
        skipped.case = "attention/fwd/b1,h1,s4,d2/bf16/flash".to_owned();
        skipped.outcome = Outcome::Skipped { reason: "no bf16, here".to_owned() };
        runs[1].run.records.push(skipped);
        let comparison = compare(&runs, &Options::default()).expect("pairs");
        let written = rows(&runs, Some(&comparison));
        let text = csv(&written);
        let read: Vec<SheetRow> =
            csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().expect("its own reader");
        assert_eq!(read, written);
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].ratio, read[0].verdict), (None, None), "the base has no ratio to itself");
        assert_eq!(read[1].ratio, Some(comparison.pairs[0].ratios[1].as_ref().expect("a ratio").value));
        assert_eq!((read[1].verdict, read[1].base.as_deref()), (Some(Verdict::Slower), Some("a")));
        assert_eq!((read[2].median_ns, read[2].reasons.as_str()), (None, "no bf16, here"));
    }
}

//! Spreadsheet of runs: one row per case and run, every key figure in full precision.

mod row;
mod samples;

pub use row::SheetRow;
pub use samples::{SampleRow, samples};

use parallax_analysis::compare::Comparison;
use parallax_schema::case::variant_of;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{
    CounterFigures, NamedRun, OneCall, Outcome, Record, Repeatable, Run, Score, Timing, WGSL_CHECKS, host,
};
use serde::Serialize;

use super::escape_field;

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
    let counters = timing.and(record.counters());
    let busiest = counters.and_then(CounterFigures::busiest_pipe);
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
        dram_read_bytes: counters.and_then(|counters| counters.total("dram_read")),
        dram_written_bytes: counters.and_then(|counters| counters.total("dram_written")),
        dram_of_least: counters.and_then(CounterFigures::dram_bytes).map(|bytes| bytes / record.cost.moved().0 as f64),
        busiest_pipe: busiest.map(|(pipe, _)| pipe.to_owned()),
        busiest_pipe_share: busiest.map(|(_, share)| share),
        no_counters: timing.and(record.no_counters()).map(str::to_owned),
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
    use parallax_analysis::compare::scores::Change;
    use parallax_analysis::compare::verdict::Verdict;
    use parallax_analysis::compare::{Options, compare};
    use parallax_schema::record::Better;
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

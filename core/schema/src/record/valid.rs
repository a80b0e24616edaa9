//! Validation of a file beyond its schema, so that every reader of a run can trust its numbers.
//!
//! A file may come from anywhere. Some numbers come from no clock: negative times, 10³⁰⁸ nanoseconds. They overflow in sums and
//! ratios long after they were read, where their origin is unknown. They are therefore refused here, by name.

use std::collections::HashSet;
use std::fmt::Display;

use super::read::of_case;
use super::roofline::{Analysis, Bandwidth, Ceilings};
use super::stats::Summary;
use super::{
    Baseline, CheckResult, CounterFigures, Counters, Drift, Energy, EnergyFigure, OneCall, Outcome, Record, Run, Score,
    Spent, Timing,
};
use crate::device::ClockInfo;
use crate::spec::LONGEST_BUDGET;
use crate::units::Nanos;

/// An impossible number in a file, or two that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: `{field}` {problem}")]
pub struct Invalid {
    /// The case of the record, or `the run`.
    pub place: String,
    /// Name of the field in the file.
    pub field: String,
    /// The error in it.
    pub problem: String,
}

/// Shortest valid time in nanoseconds: light does not cross an atom in it.
const SHORTEST: f64 = 1e-9;
/// Longest valid time in nanoseconds: thirty years.
const LONGEST: f64 = 1e18;
/// Largest rate, ratio or score.
const LARGEST: f64 = 1e30;
/// Largest number of operations or moved bytes of a case; sums of a few of them fit.
const MOST: u64 = 1 << 60;
/// Largest relative difference between a summary and its samples: both were rounded to seven digits.
const ROUNDING: f64 = 2e-6;

/// Checks a run that was read, and derives its summaries again.
pub(super) fn validate(run: &mut Run) -> Result<(), Invalid> {
    let place = Place("the run");
    if run.version == 0 {
        return Err(place.invalid("version", "is 0; the first version is 1"));
    }
    place.clock("clock", &run.clock)?;
    place.spent("spent", &run.spent)?;
    for (activity, time) in &run.activities {
        place.time(format!("activities.{activity}"), Nanos(*time))?;
    }
    place.within("spec.budget", run.spec.budget, 0.0, LONGEST_BUDGET)?;
    run.spec.precision.map_or(Ok(()), |precision| place.within("spec.precision", precision, 0.0, LARGEST))?;
    for (i, operation) in run.model.iter().flat_map(|model| model.operations.iter().enumerate()) {
        operation.traced.map_or(Ok(()), |time| place.took(format!("model.operations[{i}].traced"), time))?;
    }
    if let Some(baseline) = &run.baseline {
        place.baseline(baseline)?;
    }
    for (i, reading) in run.drift.iter().enumerate() {
        place.drift(i, reading)?;
    }
    let mut known = HashSet::new();
    for record in &mut run.records {
        let case = of_case(&record.case);
        let place = Place(&case);
        if record.device as usize >= run.devices.len() {
            let problem = format!("is {}, and the run has {} devices", record.device, run.devices.len());
            return Err(place.invalid("device", problem));
        }
        if !known.insert((record.case.clone(), record.device)) {
            return Err(place.invalid("case", "is there twice"));
        }
        place.record(record)?;
    }
    Ok(())
}

/// Place of an error in a run.
struct Place<'a>(&'a str);

impl Place<'_> {
    fn invalid(&self, field: impl Display, problem: impl Display) -> Invalid {
        Invalid { place: self.0.to_owned(), field: field.to_string(), problem: problem.to_string() }
    }

    fn within(&self, field: impl Display, value: f64, least: f64, most: f64) -> Result<(), Invalid> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(self.invalid(field, format!("is {value:e}; it can only be from {least:e} to {most:e}")))
    }

    /// Checks a duration.
    fn took(&self, field: impl Display, time: Nanos) -> Result<(), Invalid> {
        self.within(field, time.0, 0.0, LONGEST)
    }

    /// Checks a time that may be negative: an instant on a clock, or the intercept of a line through noise.
    fn time(&self, field: impl Display, time: Nanos) -> Result<(), Invalid> {
        self.within(field, time.0, -LONGEST, LONGEST)
    }

    fn clock(&self, field: &str, clock: &ClockInfo) -> Result<(), Invalid> {
        self.took(format!("{field}.step"), clock.step)?;
        self.took(format!("{field}.host_step"), clock.host_step)?;
        self.took(format!("{field}.launch_jitter"), clock.launch_jitter)?;
        self.within(format!("{field}.zero_share"), clock.zero_share, 0.0, 1.0)?;
        self.within(format!("{field}.negative_share"), clock.negative_share, 0.0, 1.0)
    }

    fn spent(&self, field: &str, spent: &Spent) -> Result<(), Invalid> {
        self.time(format!("{field}.wall"), spent.wall)?;
        self.time(format!("{field}.waiting"), spent.waiting)?;
        self.time(format!("{field}.device"), spent.device)?;
        spent.cpu.map_or(Ok(()), |cpu| self.time(format!("{field}.cpu"), cpu))
    }

    fn baseline(&self, baseline: &Baseline) -> Result<(), Invalid> {
        self.clock("baseline.clock", &baseline.clock)?;
        let timer = &baseline.timer;
        for (name, summary) in [("completion", timer.completion), ("readback", timer.readback)] {
            summary.map_or(Ok(()), |s| self.summary(&format!("baseline.timer.{name}"), &s))?;
        }
        for (i, waited) in timer.waits.iter().enumerate() {
            self.took(format!("baseline.timer.waits[{i}].device"), waited.device)?;
            self.summary(&format!("baseline.timer.waits[{i}].done"), &waited.done)?;
        }
        if let Some(check) = timer.cross_check {
            for (name, time) in [("device", check.device), ("host", check.host), ("allowed", check.allowed)] {
                self.time(format!("baseline.timer.cross_check.{name}"), time)?;
            }
        }
        self.ceilings(&baseline.ceilings)
    }

    fn ceilings(&self, ceilings: &Ceilings) -> Result<(), Invalid> {
        let rate = |field: String, rate: f64| self.within(field, rate, 0.0, LARGEST);
        let table = |field: &str, points: &[Bandwidth]| {
            let mut each = points.iter().enumerate();
            each.try_for_each(|(i, point)| rate(format!("baseline.ceilings.{field}[{i}].rate"), point.rate))
        };
        table("bandwidth", &ceilings.bandwidth)?;
        table("link.up", &ceilings.link.up)?;
        table("link.down", &ceilings.link.down)?;
        for (i, arithmetic) in ceilings.arithmetic.iter().enumerate() {
            rate(format!("baseline.ceilings.arithmetic[{i}].rate"), arithmetic.rate)?;
        }
        for (name, value) in [("upload", ceilings.upload), ("download", ceilings.download)] {
            value.map_or(Ok(()), |value| rate(format!("baseline.ceilings.{name}"), value))?;
        }
        ceilings.dispatch.map_or(Ok(()), |time| self.time("baseline.ceilings.dispatch", time))
    }

    fn drift(&self, i: usize, reading: &Drift) -> Result<(), Invalid> {
        self.time(format!("drift[{i}].at"), reading.at)?;
        // A coarse clock may show zero.
        match reading.reference_kernel.0 {
            0.0 => Ok(()),
            time => self.within(format!("drift[{i}].canary"), time, SHORTEST, LONGEST),
        }
    }

    fn record(&self, record: &mut Record) -> Result<(), Invalid> {
        let cost = record.cost;
        for (name, n) in [("flops", cost.flops.0), ("read", cost.read.0), ("written", cost.written.0)] {
            if n > MOST {
                return Err(self.invalid(format!("cost.{name}"), format!("is {n}; it can be {MOST} at most")));
            }
        }
        if let Some(n) = record.items.as_ref().map(|items| items.count).filter(|n| !(1..=MOST).contains(n)) {
            return Err(self.invalid("items.count", format!("is {n}; it is from 1 to {MOST}")));
        }
        match &mut record.outcome {
            Outcome::Pass(measured) => {
                self.check(&measured.check)?;
                for (i, score) in measured.scores.iter().enumerate() {
                    self.score(i, score)?;
                }
                if let Some(Energy::Measured(figure)) = &measured.energy {
                    self.energy(figure)?;
                }
                if let Some(Counters::Measured(figures)) = &measured.counters {
                    self.counters(figures)?;
                }
                for (i, phase) in measured.phases.iter().enumerate() {
                    self.time(format!("phases[{i}].start"), phase.start)?;
                    self.time(format!("phases[{i}].end"), phase.end)?;
                }
                for (i, span) in measured.trace.iter().flat_map(|t| &t.spans).enumerate() {
                    self.time(format!("trace.spans[{i}].start"), span.start)?;
                    self.time(format!("trace.spans[{i}].end"), span.end)?;
                }
                self.took("compiled.time", measured.compiled.time)?;
                measured.call.as_ref().map_or(Ok(()), |call| self.call(call))?;
                measured.analysis.as_ref().map_or(Ok(()), |analysis| self.analysis(analysis))?;
                measured.timing.as_mut().map_or(Ok(()), |timing| self.timing(timing))
            }
            Outcome::Fail { check } | Outcome::Refused { check, .. } => self.check(check),
            Outcome::Skipped { .. } | Outcome::Error { .. } => Ok(()),
        }
    }

    fn check(&self, check: &CheckResult) -> Result<(), Invalid> {
        for (name, value) in check.errors.iter().flat_map(|errors| {
            [
                ("rms", errors.rms),
                ("rms_of_bound", errors.rms_of_bound),
                ("worst_ulps", errors.worst_ulps),
                ("rms_ulps", errors.rms_ulps),
            ]
        }) {
            self.within(format!("check.errors.{name}"), value, 0.0, f64::MAX)?;
        }
        match check.compared > check.elements {
            true => Err(self.invalid("check.compared", "is more than there are elements")),
            false => Ok(()),
        }
    }

    fn call(&self, call: &OneCall) -> Result<(), Invalid> {
        for (name, times) in [("done", &call.done), ("result", &call.result)] {
            for (i, time) in times.iter().enumerate() {
                self.within(format!("call.{name}[{i}]"), *time, 0.0, LONGEST)?;
            }
        }
        Ok(())
    }

    fn score(&self, i: usize, score: &Score) -> Result<(), Invalid> {
        for (name, value) in [("value", score.value), ("low", score.low), ("high", score.high)] {
            self.within(format!("scores[{i}].{name}"), value, -LARGEST, LARGEST)?;
        }
        match score.low > score.high {
            true => Err(self.invalid(format!("scores[{i}].low"), "is above the high end of its interval")),
            false => Ok(()),
        }
    }

    /// The figures follow from the stretches.
    fn energy(&self, figure: &EnergyFigure) -> Result<(), Invalid> {
        for (i, stretch) in figure.stretches.iter().enumerate() {
            self.within(format!("energy.stretches[{i}].wall"), stretch.wall.0, SHORTEST, LONGEST)?;
            self.within(format!("energy.stretches[{i}].over"), stretch.over.0, SHORTEST, LONGEST)?;
            self.within(format!("energy.stretches[{i}].joules"), stretch.joules, 0.0, LARGEST)?;
            let integrated = stretch.integrated.unwrap_or(0.0);
            self.within(format!("energy.stretches[{i}].integrated"), integrated, 0.0, LARGEST)?;
        }
        self.took("energy.step", figure.step)?;
        for (name, value) in [("idle_watts", figure.idle_watts), ("busy", figure.busy)] {
            self.within(format!("energy.{name}"), value, 0.0, LARGEST)?;
        }
        let again = EnergyFigure::derived(figure.state(), figure.stretches.clone());
        let again = again.map_err(|why| self.invalid("energy", format!("is no figure: {why}")))?;
        let [integrated, integrated_again] = [figure, &again].map(|figure| figure.integrated_watts.unwrap_or(0.0));
        for (name, stored, found) in [
            ("joules", figure.joules, again.joules),
            ("low", figure.low, again.low),
            ("high", figure.high, again.high),
            ("watts", figure.watts, again.watts),
            ("integrated_watts", integrated, integrated_again),
        ] {
            let apart = (stored - found).abs();
            if apart.is_nan() || apart > ROUNDING * found.abs() {
                let problem = format!("is {stored}, and its stretches give {found}");
                return Err(self.invalid(format!("energy.{name}"), problem));
            }
        }
        Ok(())
    }

    fn counters(&self, figures: &CounterFigures) -> Result<(), Invalid> {
        self.took("counters.took", figures.took)?;
        for (i, stage) in figures.stages.iter().enumerate() {
            for (name, value) in &stage.values {
                self.within(format!("counters.stages[{i}].values.{name}"), *value, 0.0, f64::MAX)?;
            }
        }
        Ok(())
    }

    fn analysis(&self, analysis: &Analysis) -> Result<(), Invalid> {
        self.took("analysis.floor", analysis.floor)?;
        self.within("analysis.intensity", analysis.intensity, 0.0, LARGEST)?;
        self.within("analysis.utilisation", analysis.utilisation, 0.0, LARGEST)?;
        let peaks = [
            ("peak_flops", analysis.peak_flops),
            ("peak_bandwidth", analysis.peak_bandwidth),
            ("peak_link", analysis.peak_link),
        ];
        let mut known = peaks.into_iter().filter_map(|(name, peak)| Some((name, peak?)));
        known.try_for_each(|(name, peak)| self.within(format!("analysis.{name}"), peak, 0.0, LARGEST))
    }

    fn timing(&self, timing: &mut Timing) -> Result<(), Invalid> {
        for (i, sample) in timing.samples.iter().enumerate() {
            self.within(format!("timing.samples[{i}]"), *sample, SHORTEST, LONGEST)?;
        }
        for (i, sample) in timing.host_samples.iter().enumerate() {
            self.within(format!("timing.host_samples[{i}]"), *sample, 0.0, LONGEST)?;
        }
        for (i, discarded) in timing.discarded.iter().enumerate() {
            self.within(format!("timing.discarded[{i}].time"), discarded.time, -LONGEST, LONGEST)?;
        }
        if timing.repeats == 0 {
            return Err(self.invalid("timing.repeats", "is 0; a sample is of one execution at least"));
        }
        self.within("timing.clock_error", timing.clock_error, 0.0, LARGEST)?;
        self.spent("timing.spent", &timing.spent)?;
        if let Some(slope) = &timing.slope {
            let on_device = [("execution", slope.execution), ("low", slope.low), ("high", slope.high)];
            let others =
                [("fixed", slope.fixed), ("host_execution", slope.host_execution), ("host_fixed", slope.host_fixed)];
            for (name, time) in on_device.into_iter().chain(others) {
                self.time(format!("timing.slope.{name}"), time)?;
            }
        }
        if let Some(relaunched) = &timing.relaunched {
            self.summary("timing.relaunched.as_usual", &relaunched.as_usual)?;
            self.summary("timing.relaunched.summary", &relaunched.summary)?;
        }
        let Some(derived) = Summary::of(&timing.samples) else {
            return Err(self.invalid("timing.samples", "is empty; a case without samples has no timing"));
        };
        self.same_summary(&timing.summary, &derived)?;
        // They are equal except for rounding, and except that older programs used another interval.
        let interval = close(timing.summary.low, derived.low) && close(timing.summary.high, derived.high);
        // A difference of two rounded quartiles over a rounded median.
        let spread = (timing.summary.spread - derived.spread).abs() <= 2.0 * ROUNDING * (2.0 + derived.spread);
        if !interval || !spread {
            timing.summary = derived;
        }
        Ok(())
    }

    fn same_summary(&self, stated: &Summary, derived: &Summary) -> Result<(), Invalid> {
        if stated.n != derived.n {
            let problem = format!("is {}, and there are {} samples", stated.n, derived.n);
            return Err(self.invalid("timing.summary.n", problem));
        }
        for (name, stated, derived) in [
            ("median", stated.median, derived.median),
            ("q1", stated.q1, derived.q1),
            ("q3", stated.q3, derived.q3),
            ("min", stated.min, derived.min),
            ("max", stated.max, derived.max),
        ] {
            if !close(stated, derived) {
                let problem = format!("is {}, and its samples give {}", stated.0, derived.0);
                return Err(self.invalid(format!("timing.summary.{name}"), problem));
            }
        }
        Ok(())
    }

    /// Checks a summary without its samples in the file.
    fn summary(&self, field: &str, s: &Summary) -> Result<(), Invalid> {
        let times = [s.min, s.q1, s.median, s.q3, s.max, s.low, s.high];
        let names = ["min", "q1", "median", "q3", "max", "low", "high"];
        for (name, time) in names.into_iter().zip(times) {
            self.time(format!("{field}.{name}"), time)?;
        }
        match times[..5].windows(2).all(|pair| pair[0] <= pair[1]) && s.low <= s.high {
            true => Ok(()),
            false => Err(self.invalid(field, "has quantiles that do not ascend")),
        }
    }
}

fn close(stated: Nanos, derived: Nanos) -> bool {
    (stated.0 - derived.0).abs() <= ROUNDING * derived.0.abs()
}

#[cfg(test)]
mod tests {
    use crate::case::Cost;
    use crate::record::{Counters, Coverage, Energy, Errors, Model, ModelFormat, Operation, ReadError, Run};
    use crate::testing::{counters, drift, energy, measured, run, spread};
    use crate::units::Nanos;
    use serde_json::{Value, json};

    const CASE: &str = "a/fwd/b1/f32/x";

    fn file() -> Value {
        let mut run = run("cuda", "X", &[(CASE, spread(100.0, 0.002, 40))]);
        run.drift = drift(&[5.0, 6.0]);
        measured(&mut run, CASE).check.errors =
            Some(Errors { rms: 1e-7, rms_of_bound: 0.1, worst_ulps: 2.0, rms_ulps: 0.3 });
        measured(&mut run, CASE).energy = Some(Energy::Measured(Box::new(energy(0.002))));
        let counted = counters(&["flash"], &[("l2_hits", 0.5)]);
        measured(&mut run, CASE).counters = Some(Counters::Measured(Box::new(counted)));
        run.model = Some(Model {
            name: "m".to_owned(),
            format: ModelFormat::Trace,
            extents: [("seq".to_owned(), 7)].into(),
            operations: vec![Operation {
                kind: "aten::mm".to_owned(),
                layer: String::new(),
                count: 2,
                cost: Cost::new(8, 4, 4),
                coverage: Coverage::Free { reason: "a view".to_owned() },
                traced: Some(Nanos(5.0)),
            }],
        });
        serde_json::to_value(run).expect("JSON")
    }

    #[test]
    fn what_cannot_be_is_refused_by_record_and_field() {
        Run::parse(&file().to_string()).expect("sound");
        for (pointer, value, parts) in [
            ("/version", json!(0), &["the run", "`version` is 0"][..]),
            ("/records/0/timing/samples", json!([]), &[CASE, "`timing.samples` is empty"]),
            ("/records/0/timing/samples/3", json!(-5), &[CASE, "`timing.samples[3]` is -5e0"]),
            ("/records/0/timing/samples/0", json!(-1e308), &["`timing.samples[0]` is -1e308"]),
            ("/records/0/timing/samples/0", json!(1e308), &["`timing.samples[0]` is 1e308"]),
            ("/records/0/timing/samples/0", json!(5e-324), &["`timing.samples[0]` is 5e-324"]),
            ("/records/0/timing/samples/0", json!(0), &["`timing.samples[0]` is 0e0"]),
            ("/records/0/timing/host_samples/1", json!(1e300), &["`timing.host_samples[1]`"]),
            ("/records/0/timing/summary/n", json!(7), &["`timing.summary.n` is 7", "40 samples"]),
            ("/records/0/timing/summary/median", json!(50), &[CASE, "`timing.summary.median` is 50"]),
            ("/records/0/timing/repeats", json!(0), &["`timing.repeats` is 0"]),
            ("/records/0/cost/flops", json!(u64::MAX), &["`cost.flops`"]),
            ("/clock/step", json!(-1.0), &["the run", "`clock.step`"]),
            ("/spent/wall", json!(1e308), &["the run", "`spent.wall`"]),
            ("/spec/budget", json!(1e18), &["the run", "`spec.budget` is 1e18", "to 3.1536e7"]),
            ("/spec/budget", json!(-1), &["the run", "`spec.budget` is -1e0"]),
            ("/model/operations/0/traced", json!(-3), &["the run", "`model.operations[0].traced`"]),
            ("/records/0/check/errors/rms_ulps", json!(-1), &[CASE, "`check.errors.rms_ulps` is -1e0"]),
            ("/records/0/energy/measured/joules", json!(5), &[CASE, "`energy.joules` is 5, and its stretches give"]),
            ("/records/0/energy/measured/idle_watts", json!(-1), &["`energy.idle_watts` is -1e0"]),
            ("/records/0/energy/measured/stretches", json!([]), &["`energy` is no figure"]),
            ("/records/0/energy/measured/stretches/0/over", json!(0), &["`energy.stretches[0].over` is 0e0"]),
            ("/records/0/energy/measured/stretches/1/joules", json!(1e300), &["`energy.stretches[1].joules`"]),
            ("/records/0/energy/measured/stretches/2/executions", json!(0), &["`energy` is no figure"]),
            ("/records/0/counters/measured/took", json!(-1), &["`counters.took` is -1e0"]),
            (
                "/records/0/counters/measured/stages/0/values/l2_hits",
                json!(-1),
                &["`counters.stages[0].values.l2_hits`"],
            ),
        ] {
            let mut file = file();
            *file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
            let error = Run::parse(&file.to_string()).expect_err(pointer);
            assert!(matches!(error, ReadError::Invalid(_)), "{pointer}: {error}");
            let said = error.to_string();
            assert!(parts.iter().all(|part| said.contains(part)), "{pointer}: {said}");
        }
        let mut twice = file();
        let record = twice["records"][0].clone();
        twice["records"].as_array_mut().expect("a list").push(record);
        let said = Run::parse(&twice.to_string()).expect_err("twice").to_string();
        assert!(said.contains(CASE) && said.contains("is there twice"), "{said}");
        let mut elsewhere = file();
        elsewhere["records"][0]["device"] = json!(4);
        assert!(Run::parse(&elsewhere.to_string()).expect_err("no such device").to_string().contains("`device` is 4"));
        let mut wild = run("cuda", "X", &[]);
        wild.drift = drift(&[5.0, -1e308]);
        let text = serde_json::to_string(&wild).expect("JSON");
        assert!(Run::parse(&text).expect_err("wild").to_string().contains("`drift[1].canary`"));
    }

    #[test]
    fn the_interval_is_that_of_the_samples() {
        let mut file = file();
        file["records"][0]["timing"]["summary"]["low"] = json!(99.999);
        file["records"][0]["timing"]["summary"]["spread"] = json!(7);
        let read = Run::parse(&file.to_string()).expect("an older program's interval");
        let timing = read.records[0].timing().expect("timed");
        assert_eq!(Some(timing.summary), crate::record::stats::Summary::of(&timing.samples));
    }
}

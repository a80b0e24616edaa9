//! Components of a case, its bottleneck, and one sentence of advice by rule.

use parallax_schema::case::problem_of;
use parallax_schema::catalog::{CaseFacts, Catalog, StageFacts};
use parallax_schema::record::roofline::{Analysis, Bound, analyse};
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{CounterFigures, Measured, OneCall, Record, Relaunched, Run};
use parallax_schema::units::{Bytes, Nanos, percent, three_digits};

use crate::evidence::finding;
use crate::executions::stage_times;
use crate::{CaseInfo, DeviceContext};

/// One part of a case: a stage on the device, a group of stages, or a step outside of the execution.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Component {
    /// Label of the stage, or name of the step.
    pub name: String,
    /// Stages of a group; empty for a single stage.
    pub stages: Vec<Component>,
    /// Median over the traced executions.
    pub time: Nanos,
    /// Share of the device's time for one execution; absent for steps that happen once, outside of it.
    pub share: Option<f64>,
    /// Binding ceiling, if ceilings are known.
    pub bound: Option<Bound>,
    /// Share of the binding ceiling.
    pub utilisation: Option<f64>,
    /// Share of thread slots filled, if the interface reports it.
    pub occupancy: Option<f64>,
    /// Least bytes between the device and its memory; absent for a group and for steps outside of the execution.
    #[serde(default)]
    pub declared: Option<Bytes>,
}

/// Smallest speed-up at which another variant is worth a remark.
const WORTH: f64 = 1.1;
/// Share of a ceiling beyond which a kernel is close to it.
const CLOSE: f64 = 0.7;
/// Share of thread slots below which a device has too few threads to hide latency.
const FEW_THREADS: f64 = 0.5;

/// Returns the components of a case: its stages in order, then the steps around them. Empty without a trace.
pub fn components(catalog: &dyn Catalog, record: &Record, run: &Run) -> Vec<Component> {
    let Some(measured) = record.measured() else { return Vec::new() };
    let mut parts = stages(record, measured, DeviceContext::new(catalog, run));
    if parts.is_empty() {
        return parts;
    }
    let Some(baseline) = &run.baseline else { return parts };
    let once = |name: &str, time: Option<Nanos>, bound| {
        time.map(|time| Component {
            name: name.to_owned(),
            stages: Vec::new(),
            time,
            share: None,
            bound: Some(bound),
            utilisation: None,
            occupancy: None,
            declared: None,
        })
    };
    let move_at = |bytes: u64, rate: Option<f64>| rate.map(|r| Nanos(bytes as f64 / r * 1e9));
    let median = measured.timing.as_ref().map(|timing| timing.summary.median);
    let done = measured.call.as_ref().and_then(OneCall::done);
    // Completion is the time of a call of one execution beyond the execution.
    let completion = done.zip(median).map(|(done, median)| done.median - median).filter(|t| t.0 > 0.0);
    parts.extend(once("submit and completion, once", completion, Bound::Launch));
    if let Some(CaseFacts { input_bytes, output_bytes, .. }) = catalog.case(&record.case) {
        let upload = move_at(input_bytes.0, baseline.ceilings.upload);
        parts.extend(once("uploading the inputs, once", upload, Bound::Transfer));
        let download = move_at(output_bytes.0, baseline.ceilings.download);
        parts.extend(once("reading the outputs back, once", download, Bound::Transfer));
    }
    parts
}

/// Returns the stages of a case in order, each group of stages as one component.
pub(super) fn stages(record: &Record, measured: &Measured, ground: DeviceContext) -> Vec<Component> {
    let times = stage_times(measured.trace.as_ref().map_or(&[][..], |trace| &trace.spans));
    let median = |(name, times): (_, Vec<f64>)| (name, Summary::of(&times).map_or(0.0, |summary| summary.median.0));
    let medians: Vec<(&str, f64)> = times.into_iter().map(median).collect();
    let total: f64 = medians.iter().map(|(_, time)| time).sum();
    let known = ground.catalog.stages(record, ground.caps).unwrap_or_default();
    let component = |(name, time): &(&str, f64)| {
        let time = Nanos(*time);
        let with_label = known.iter().find(|stage| stage.label == *name);
        let stage = with_label.or_else(|| known.iter().find(|stage| stage.entry == *name));
        let analysis = match stage {
            _ if medians.len() == 1 => measured.analysis.clone(),
            Some(stage) => of_stage(stage, time, ground),
            None => None,
        };
        let made = Component {
            name: (*name).to_owned(),
            stages: Vec::new(),
            time,
            share: Some(time.0 / total.max(f64::MIN_POSITIVE)),
            bound: analysis.as_ref().map(|a| a.bound),
            utilisation: analysis.as_ref().map(|a| a.utilisation),
            occupancy: measured.launches.iter().find(|l| l.label() == *name).and_then(|l| l.occupancy),
            declared: stage.map(|stage| stage.cost.moved()),
        };
        (stage.and_then(|stage| stage.component), made)
    };
    summed(medians.iter().map(component).collect())
}

/// Merges each group of stages into one component, at the place of its first stage.
fn summed(stages: Vec<(Option<&'static str>, Component)>) -> Vec<Component> {
    let mut parts: Vec<Component> = Vec::new();
    for (component, stage) in stages {
        let Some(name) = component else {
            parts.push(stage);
            continue;
        };
        match parts.iter_mut().find(|part| part.name == name && !part.stages.is_empty()) {
            Some(part) => part.stages.push(stage),
            None => {
                parts.push(Component { name: name.to_owned(), stages: vec![stage.clone()], occupancy: None, ..stage })
            }
        }
    }
    for part in parts.iter_mut().filter(|part| part.stages.len() > 1) {
        let time: f64 = part.stages.iter().map(|stage| stage.time.0).sum();
        let longest = part.stages.iter().max_by(|a, b| a.time.0.total_cmp(&b.time.0)).expect("more than one");
        part.bound = longest.bound;
        // Mean utilisation, weighted by time.
        let reached = |stage: &Component| Some(stage.utilisation? * stage.time.0);
        part.utilisation = part.stages.iter().map(reached).sum::<Option<f64>>().map(|sum| sum / time);
        part.share = part.stages.iter().map(|stage| stage.share).sum();
        part.time = Nanos(time);
        part.declared = None;
    }
    parts
}

/// Returns the roofline analysis of a stage, by its own operations and bytes.
fn of_stage(stage: &StageFacts, time: Nanos, ground: DeviceContext) -> Option<Analysis> {
    let work = (stage.cost, stage.transfer);
    analyse(ground.ceilings?, ground.caps, stage.dtype, work, (stage.buffer_bytes, ground.cache), (time, 1))
}

/// Returns one sentence about a case: its bound and a remedy. `None` for a case without a time.
pub fn advice(catalog: &dyn Catalog, record: &Record, run: &Run) -> Option<String> {
    advice_by(record, &CaseInfo::of(record, DeviceContext::new(catalog, run)), run)
}

/// Returns the advice of a case with a known [`CaseInfo`].
pub fn advice_by(record: &Record, known: &CaseInfo, run: &Run) -> Option<String> {
    let measured = record.measured()?;
    let median = measured.timing.as_ref()?.summary.median;
    let faster = fastest_sibling(record, run).filter(|(_, time)| median.0 / time.0 >= WORTH);
    let faster =
        faster.map(|(variant, time)| format!("`{variant}` here is {}× faster", three_digits(median.0 / time.0)));
    let parts = &known.stages;
    if let Some(relaunched) = measured.timing.as_ref().and_then(|t| t.relaunched) {
        return Some(match faster {
            Some(faster) => format!("{}; {faster}", saved(&relaunched)),
            None => saved(&relaunched),
        });
    }
    if parts.len() > 1 {
        let worst = parts.iter().max_by(|a, b| a.time.0.total_cmp(&b.time.0))?;
        let bound = worst.bound.map_or(String::new(), |b| format!(" and is {}-bound", b.name()));
        let said = format!("`{}` takes {}{bound}", worst.name, percent(worst.share.unwrap_or(0.0)));
        return Some(match (faster, found(record, Some(worst))) {
            (Some(faster), _) => format!("{said}: use a fused variant; {faster}"),
            (None, Some(found)) => format!("{said}: begin there; {found}"),
            (None, None) => format!("{said}: begin there"),
        });
    }
    if let Some(faster) = faster {
        return Some(faster);
    }
    let analysis = measured.analysis.as_ref()?;
    let used = percent(analysis.utilisation);
    if known.probe {
        return Some(format!("it is a probe of the ceilings: at this size it reaches {used} of the best probe"));
    }
    // Counters show the cause; the bound alone only suggests one.
    let counted = found(record, parts.first()).filter(|_| analysis.bound != Bound::Launch);
    if let Some(counted) = counted {
        return Some(counted);
    }
    Some(match analysis.bound {
        Bound::Launch => "it is hardly longer than an empty launch: do more in one launch, or fuse it with its \
                          neighbours"
            .to_owned(),
        Bound::Memory if analysis.utilisation >= CLOSE => {
            format!("it reaches {used} of measured bandwidth: only fewer bytes help, as in a smaller element type")
        }
        Bound::Memory => {
            format!("it is memory-bound at {used} of measured bandwidth: widen and align its accesses{GUESS}")
        }
        Bound::Compute if analysis.utilisation >= CLOSE => {
            format!("it reaches {used} of measured arithmetic: only fewer operations help")
        }
        Bound::Compute => {
            format!(
                "it is compute-bound at {used} of the measured rate: more work per thread and per load would help{GUESS}"
            )
        }
        Bound::Transfer if analysis.utilisation >= CLOSE => format!(
            "it reaches {used} of the measured link between host and device: only fewer bytes help, or data that stays on \
             the device"
        ),
        Bound::Transfer => format!(
            "moving its data between host and device takes {used} of its time at the measured rate: compute while data is \
             moved, or keep it on the device"
        ),
        Bound::Latency => latency(measured, &used),
    })
}

/// End of advice that follows from a bound alone.
const GUESS: &str = " (a guess: no counters were read)";

/// Returns the finding from the counters of a component: of its longest stage. Without a component, of the only stage.
fn found(record: &Record, part: Option<&Component>) -> Option<String> {
    let figures = record.counters()?;
    let longest = part.map(|part| part.stages.iter().max_by(|a, b| a.time.0.total_cmp(&b.time.0)).unwrap_or(part));
    let alone = figures.stages.first().filter(|_| figures.stages.len() == 1);
    let counted = longest.and_then(|stage| figures.of_stage(&stage.name)).or(alone)?;
    finding(counted, declared_bytes(record, figures, longest))
}

/// Returns the least bytes between the device and its memory for a stage. Those of the only stage are the case's.
pub(crate) fn declared_bytes(record: &Record, figures: &CounterFigures, stage: Option<&Component>) -> Option<Bytes> {
    let of_stage = stage.and_then(|stage| stage.declared);
    of_stage.or_else(|| (figures.stages.len() == 1).then(|| record.cost.moved()))
}

/// Returns a sentence on the saving of another way of launching, for a launch-bound case.
fn saved(relaunched: &Relaunched) -> String {
    let Relaunched { launch, as_usual, summary } = relaunched;
    let name = launch.name();
    let both = format!("{} in place of {}, measured side by side", summary.median, as_usual.median);
    // Overlapping intervals show no saving.
    match summary.high.0 < as_usual.low.0 {
        true => {
            let times = three_digits(as_usual.median.0 / summary.median.0);
            format!("launching binds it: as a {name} it takes {both}, {times}× faster (`--launch {name}`)")
        }
        false => format!("launching binds it, and a {name} saves nothing: {both}; do more in one launch"),
    }
}

/// Returns a sentence for a case far from both ceilings, with the reason from its launch if there is one.
fn latency(measured: &Measured, used: &str) -> String {
    let launch = measured.launches.first();
    let occupancy = launch.and_then(|l| l.occupancy);
    match (launch, occupancy) {
        (Some(launch), Some(o)) if o < FEW_THREADS => {
            let registers = launch.registers.map_or(String::new(), |r| format!(", {r} registers a thread"));
            format!(
                "at {used} of its ceiling it waits: {} of the thread slots are filled (blocks of {}{registers}, {} of \
                 shared memory); smaller tiles or a larger problem would fill more{GUESS}",
                percent(o),
                launch.block.iter().product::<u32>(),
                launch.shared,
            )
        }
        _ => format!(
            "at {used} of its ceiling it mostly waits: more independent loads and operations per thread would help{GUESS}"
        ),
    }
}

/// Returns the fastest other variant of the same problem in the run.
fn fastest_sibling<'r>(record: &Record, run: &'r Run) -> Option<(&'r str, Nanos)> {
    let ours = record.actual.as_ref().map_or(&record.parts.variant, |a| &a.variant);
    run.records
        .iter()
        .filter(|r| problem_of(&r.case) == problem_of(&record.case) && r.actual.is_none() && r.parts.variant != *ours)
        .filter_map(|r| Some((r.parts.variant.as_str(), r.timing()?.summary.median)))
        .min_by(|a, b| a.1.0.total_cmp(&b.1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::device::Launching;
    use parallax_schema::record::Counters;
    use parallax_schema::testing::{counters, measured, run, spread};
    use parallax_workloads::Registry;

    #[test]
    fn stages_that_belong_together_are_summed_where_the_first_of_them_is() {
        let stage = |name: &str, time: f64, bound, utilisation| Component {
            name: name.to_owned(),
            stages: Vec::new(),
            time: Nanos(time),
            share: Some(time / 100.0),
            bound: Some(bound),
            utilisation,
            occupancy: Some(0.5),
            declared: None,
        };
        let parts = summed(vec![
            (Some("projection"), stage("product", 30.0, Bound::Compute, Some(0.5))),
            (None, stage("softmax", 10.0, Bound::Memory, Some(0.9))),
            (Some("projection"), stage("bias", 10.0, Bound::Memory, Some(0.9))),
            (Some("other"), stage("alone", 50.0, Bound::Memory, None)),
        ]);
        let names: Vec<(&str, usize)> = parts.iter().map(|part| (part.name.as_str(), part.stages.len())).collect();
        assert_eq!(names, [("projection", 2), ("softmax", 0), ("other", 1)]);
        let projection = &parts[0];
        assert_eq!((projection.time, projection.bound), (Nanos(40.0), Some(Bound::Compute)));
        assert!((projection.utilisation.expect("both known") - 0.6).abs() < 1e-12);
        assert!((projection.share.expect("both known") - 0.4).abs() < 1e-12 && projection.occupancy.is_none());
        assert_eq!((parts[2].time, parts[2].utilisation), (Nanos(50.0), None));
    }

    #[test]
    fn a_probe_is_not_told_to_become_another() {
        const CASE: &str = "copy/fwd/n1000/f32/vec4";
        let mut run = run("cuda", "X", &[(CASE, spread(12_000.0, 0.002, 40))]);
        measured(&mut run, CASE).analysis = Some(Analysis {
            intensity: 0.0,
            floor: Nanos(6_000.0),
            utilisation: 0.5,
            peak_flops: None,
            peak_bandwidth: Some(1e12),
            peak_link: None,
            bound: Bound::Memory,
        });
        let said = advice(&Registry, &run.records[0], &run).expect("a figure");
        assert!(said.contains("a probe of the ceilings") && said.contains("50"), "{said}");
    }

    #[test]
    fn what_a_graph_saves_is_said_as_measured_or_not_at_all() {
        const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";
        let said = |graph: Option<f64>| {
            let mut run = run("cuda", "X", &[(CASE, spread(12_000.0, 0.002, 40))]);
            let summary = |median: f64| Summary::of(&spread(median, 0.002, 15)).expect("samples");
            measured(&mut run, CASE).timing.as_mut().expect("timed").relaunched = graph.map(|graph| Relaunched {
                launch: Launching::Graph,
                as_usual: summary(12_000.0),
                summary: summary(graph),
            });
            advice(&Registry, &run.records[0], &run)
        };
        let saves = said(Some(8_000.0)).expect("a figure");
        assert!(saves.contains("8.00 µs in place of 12.0 µs") && saves.contains("1.50× faster"), "{saves}");
        assert!(saves.contains("--launch graph"), "{saves}");
        let nothing = said(Some(12_001.0)).expect("a figure");
        assert!(nothing.contains("a graph saves nothing"), "{nothing}");
        assert!(said(None).is_none_or(|other| !other.contains("graph")));
    }

    #[test]
    fn counters_replace_a_guess() {
        const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";
        let mut run = run("cuda", "X", &[(CASE, spread(12_000.0, 0.002, 40))]);
        measured(&mut run, CASE).analysis = Some(Analysis {
            intensity: 1.0,
            floor: Nanos(1_200.0),
            utilisation: 0.1,
            peak_flops: Some(1e12),
            peak_bandwidth: Some(1e12),
            peak_link: None,
            bound: Bound::Memory,
        });
        let guess = advice(&Registry, &run.records[0], &run).expect("a figure");
        assert!(guess.contains("widen") && guess.contains("a guess"), "{guess}");
        let values = [("stall_long_scoreboard", 3.0), ("stall_selected", 1.0)];
        measured(&mut run, CASE).counters = Some(Counters::Measured(Box::new(counters(&["attention_flash"], &values))));
        let said = advice(&Registry, &run.records[0], &run).expect("a figure");
        assert!(
            said.contains("75.0 % of its warps wait for data from global memory") && !said.contains("guess"),
            "{said}"
        );
    }
}

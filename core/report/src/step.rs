//! Parts of a step over a batch, from the preparation of the batch on the host to the read-back of the results.

use parallax_schema::catalog::Catalog;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{LOADING, Record, Run, TRANSFER};
use parallax_schema::units::Nanos;

use crate::DeviceContext;
use crate::advice::stages;

/// One part of a step, or the whole step.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name of the part.
    pub name: String,
    /// Median time.
    pub time: Nanos,
    /// Share of the whole.
    pub share: f64,
}

/// Returns the whole, and then its consecutive parts in order: the phases of the batch, and the components of its execution. Empty
/// for a case without items or without a trace.
pub fn step(catalog: &dyn Catalog, record: &Record, run: &Run) -> Vec<Part> {
    let Some(measured) = record.measured().filter(|_| record.items.is_some()) else { return Vec::new() };
    let around = [LOADING, TRANSFER].into_iter().filter_map(|name| {
        let of_that_name = measured.phases.iter().filter(|phase| phase.name == name);
        let times: Vec<f64> = of_that_name.map(|phase| (phase.end - phase.start).0).collect();
        Some((name.to_owned(), median(&times)?))
    });
    let mut parts: Vec<(String, Nanos)> = around.collect();
    let executed = stages(record, measured, DeviceContext::new(catalog, run));
    if parts.is_empty() || executed.is_empty() {
        return Vec::new();
    }
    parts.extend(executed.into_iter().map(|component| (component.name, component.time)));
    let total: f64 = parts.iter().map(|(_, time)| time.0).sum();
    let whole = ("total".to_owned(), Nanos(total));
    let part = |(name, time): (String, Nanos)| Part { name, time, share: time.0 / total.max(f64::MIN_POSITIVE) };
    std::iter::once(whole).chain(parts).map(part).collect()
}

/// Returns the median; `None` without times.
fn median(times: &[f64]) -> Option<Nanos> {
    Summary::of(times).map(|summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::device::{Span, SpanKind, Trace, Track};
    use parallax_schema::record::{Items, Phase};
    use parallax_schema::testing::{measured, run, spread};
    use parallax_workloads::Registry;

    const CASE: &str = "train_step/fwd+bwd/n8,e3,v5,d4,f8/f32/fused";

    #[test]
    fn a_step_is_the_batch_and_then_its_components_in_their_order() {
        let mut run = run("wgpu", "X", &[(CASE, spread(1000.0, 0.001, 30))]);
        assert_eq!(step(&Registry, &run.records[0], &run), [], "nothing is counted in items");
        run.records[0].items = Some(Items { name: "samples".to_owned(), count: 8 });
        assert_eq!(step(&Registry, &run.records[0], &run), [], "no trace");
        let kernel = |(name, start, end): (&str, f64, f64)| Span {
            name: name.to_owned(),
            kind: SpanKind::Kernel,
            track: Track::Gpu,
            start: Nanos(start),
            end: Nanos(end),
            ..Span::default()
        };
        let spans = [("lookup", 0.0, 10.0), ("pred", 10.0, 30.0), ("dx", 30.0, 70.0), ("adamw_step_b1", 70.0, 80.0)];
        let phase = |(name, start, end): (&str, f64, f64)| Phase {
            name: name.to_owned(),
            start: Nanos(start),
            end: Nanos(end),
        };
        // Three times, of which the median counts. Other phases of the host are no part of a step.
        let phases = [
            (LOADING, 0.0, 500.0),
            (TRANSFER, 500.0, 520.0),
            (LOADING, 600.0, 690.0),
            (TRANSFER, 700.0, 730.0),
            (LOADING, 800.0, 880.0),
            (TRANSFER, 900.0, 990.0),
            ("trace", 1000.0, 2000.0),
        ];
        let trace = Trace { spans: spans.map(kernel).into(), ..Trace::default() };
        measured(&mut run, CASE).trace = Some(trace);
        assert_eq!(step(&Registry, &run.records[0], &run), [], "a file of a version that measured neither");
        measured(&mut run, CASE).phases = phases.map(phase).into();
        let parts = step(&Registry, &run.records[0], &run);
        let told: Vec<(&str, f64)> = parts.iter().map(|part| (part.name.as_str(), part.time.0)).collect();
        let want = [
            ("total", 200.0),
            ("loading", 90.0),
            ("transfer", 30.0),
            ("forward", 30.0),
            ("backward", 40.0),
            ("optimiser", 10.0),
        ];
        assert_eq!(told, want);
        assert!(parts.iter().all(|part| (part.share - part.time.0 / 200.0).abs() < 1e-12));
    }
}

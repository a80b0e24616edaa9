//! Device time as folded stacks for flame graphs (Gregg, "The Flame Graph" (2016)). Each stage has a line with its enclosing names,
//! outermost first and joined by semicolons, and its nanoseconds.

use parallax_analysis::{ModelTime, model_time};
use parallax_schema::device::Span;
use parallax_schema::grouped;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{NamedRun, Record};

use crate::executions::{executions, stage_times};
use crate::{device_line, escape};

/// Name of the idle time between the stages of an execution.
pub const BETWEEN: &str = "between stages";
/// Upper bound of a stage's time, in nanoseconds. No real stage takes longer, and sums of such times do not overflow.
const LONGEST: f64 = 1e15;

/// Returns the stacks of all cases with stage times; of several runs, below the name of each. Cases of one workload are neighbours,
/// and stages are in the order of execution. Times are medians over the traced executions.
pub fn folded(runs: &[NamedRun]) -> Vec<String> {
    let mut stacks: Vec<(Vec<String>, u64)> = Vec::new();
    for NamedRun { name, run } in runs {
        if let Some(model) = model_time(run) {
            let outer: Vec<String> = (runs.len() > 1).then(|| frame(name)).into_iter().collect();
            stacks.extend(of_model(&model).map(|(frames, time)| ([&outer[..], &frames].concat(), time)));
            continue;
        }
        for record in &run.records {
            let run_name = (runs.len() > 1).then(|| frame(name));
            let device =
                (run.devices.len() > 1).then(|| frame(&format!("{}: {}", record.device, run.device_of(record).name)));
            let outer: Vec<String> = run_name.into_iter().chain(device).chain(of_case(record)).collect();
            for (stage, time) in stages(record) {
                stacks.push((outer.iter().cloned().chain([frame(stage)]).collect(), time));
            }
        }
    }
    // The stable sort keeps the order of stages.
    stacks.sort_by(|(a, _), (b, _)| a[..a.len() - 1].cmp(&b[..b.len() - 1]));
    stacks.into_iter().map(|(frames, time)| format!("{} {time}", frames.join(";"))).collect()
}

/// Returns the operations of a model with times: model, layers, operation and problem as frames, and the time in a pass.
fn of_model<'m>(model: &'m ModelTime) -> impl Iterator<Item = (Vec<String>, u64)> + 'm {
    model.rows.iter().filter_map(|row| {
        let time = row.each?.median.0 * row.operation.count as f64;
        let layers = row.operation.layer.split('.').filter(|layer| !layer.is_empty());
        let names = std::iter::once(model.model.name.as_str()).chain(layers);
        let names = names.chain([row.operation.kind.as_str()]).chain(row.operation.problem());
        Some((names.map(frame).collect(), time.clamp(0.0, LONGEST) as u64))
    })
}

/// Returns device and target of each run in one line.
pub fn devices(runs: &[NamedRun]) -> String {
    runs.iter().map(|NamedRun { run, .. }| frame(&device_line(run))).collect::<Vec<_>>().join(" | ")
}

/// Returns workload, direction, problem and variant as frames. A case string without these parts is one frame.
fn of_case(record: &Record) -> Vec<String> {
    match *record.case.split('/').collect::<Vec<_>>() {
        [workload, direction, shape, dtype, variant] => {
            let variant = match &record.actual {
                Some(actual) => format!("{variant} → {}", actual.variant),
                None => variant.to_owned(),
            };
            [workload, direction, &format!("{shape}/{dtype}"), &variant].map(frame).to_vec()
        }
        _ => vec![frame(&record.case)],
    }
}

/// Returns a name as a frame. Semicolons separate frames, and a number after a space is a time: neither may come from a name.
fn frame(name: &str) -> String {
    let shown = |c: char| match c {
        ' ' => '\u{a0}'.to_string(),
        ';' => c.escape_unicode().to_string(),
        other => other.to_string(),
    };
    escape(name).chars().map(shown).collect()
}

/// Returns the stages in the order of their first execution, each with its time per execution. The idle time between them follows,
/// if there is any.
fn stages(record: &Record) -> Vec<(&str, u64)> {
    let spans = record.measured().and_then(|measured| measured.trace.as_ref()).map_or(&[][..], |trace| &trace.spans);
    let between = grouped(executions(spans).map(|work| (BETWEEN, idle(work))));
    let whole = |(stage, times): (_, Vec<f64>)| {
        let median = Summary::of(&times).map_or(0.0, |summary| summary.median.0);
        (stage, median.clamp(0.0, LONGEST).round() as u64)
    };
    stage_times(spans).into_iter().chain(between).map(whole).filter(|(_, time)| *time > 0).collect()
}

/// Returns the time between the first begin and the last end in which no span ran. Spans on different streams may overlap.
fn idle(mut work: Vec<&Span>) -> f64 {
    work.sort_by(|a, b| a.start.0.total_cmp(&b.start.0));
    let mut until = work.first().map_or(0.0, |first| first.end.0);
    let mut idle = 0.0;
    for span in work {
        idle += (span.start.0 - until).max(0.0);
        until = until.max(span.end.0);
    }
    idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::device::{SpanKind, Trace, Track};
    use parallax_schema::record::ActualVariant;
    use parallax_schema::testing::{measured, run, spread};
    use parallax_schema::units::Nanos;

    const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/manual";

    /// Returns a trace of executions a microsecond apart, each with spans on the device: name, begin and end.
    fn traced(executions: &[&[(&str, f64, f64)]]) -> Option<Trace> {
        let span = |name: &str, kind, track, start: f64, end: f64| Span {
            name: name.to_owned(),
            kind,
            track,
            start: Nanos(start),
            end: Nanos(end),
            ..Span::default()
        };
        let mut spans = Vec::new();
        for (i, execution) in executions.iter().enumerate() {
            let at = 1000.0 * i as f64;
            spans.push(span("ProfilerStep#0", SpanKind::Annotation, Track::Host, at, at + 900.0));
            spans.push(span("cuLaunchKernel", SpanKind::Runtime, Track::Host, at, at + 100.0));
            let kernel =
                |(name, start, end): &(&str, f64, f64)| span(name, SpanKind::Kernel, Track::Gpu, at + start, at + end);
            spans.extend(execution.iter().map(kernel));
        }
        Some(Trace { spans, ..Trace::default() })
    }

    fn one(case: &str, executions: &[&[(&str, f64, f64)]]) -> NamedRun {
        let mut run = run("cuda", "X", &[(case, spread(12_000.0, 0.002, 40))]);
        measured(&mut run, case).trace = traced(executions);
        NamedRun::new("cuda", run)
    }

    #[test]
    fn a_stage_has_the_median_of_its_sums_and_stages_keep_their_order() {
        let executions: [&[_]; 3] = [
            &[("scores", 0.0, 100.0), ("fill", 110.0, 120.0), ("fill", 125.0, 135.0)],
            &[("scores", 0.0, 300.0), ("fill", 310.0, 320.0), ("fill", 325.0, 335.0)],
            &[("scores", 0.0, 120.0), ("fill", 130.0, 140.0), ("fill", 145.0, 155.0)],
        ];
        let stack = "attention;fwd;b1,h1,s4,d2/f32;manual";
        let want = [("scores", 120), ("fill", 20), ("between\u{a0}stages", 15)];
        assert_eq!(folded(&[one(CASE, &executions)]), want.map(|(stage, time)| format!("{stack};{stage} {time}")));
    }

    #[test]
    fn what_overlaps_leaves_no_time_between_and_what_has_no_spans_no_stack() {
        let overlapping: [&[_]; 1] = [&[("a", 0.0, 100.0), ("b", 50.0, 80.0), ("c", 90.0, 130.0)]];
        assert_eq!(folded(&[one(CASE, &overlapping)]).len(), 3);
        assert!(folded(&[one(CASE, &[])]).is_empty());
        assert!(folded(&[one(CASE, &[&[]])]).is_empty());
    }

    #[test]
    fn runs_stand_beside_each_other_and_variants_that_ran_in_place_of_others_are_named() {
        let NamedRun { run: mut first, .. } = one(CASE, &[&[("a", 0.0, 10.0)]]);
        first.records[0].actual = Some(ActualVariant { variant: "flash".to_owned(), reason: String::new() });
        let runs = [NamedRun::new("new", first), NamedRun::new("base", one(CASE, &[&[("a", 0.0, 20.0)]]).run)];
        let problem = "attention;fwd;b1,h1,s4,d2/f32";
        assert_eq!(
            folded(&runs),
            [format!("base;{problem};manual;a 20"), format!("new;{problem};manual\u{a0}→\u{a0}flash;a 10")]
        );
    }

    #[test]
    fn no_name_is_a_frame_or_a_time_of_its_own() {
        let hostile = "x;y 7\n\u{1b}\u{202e}\u{ffff}";
        let NamedRun { name, run } = one(&format!("{hostile}/é"), &[&[(hostile, 0.0, 10.0)]]);
        let shown = r"x\u{3b}y 7\n\u{1b}\u{202e}\u{ffff}".replace(' ', "\u{a0}");
        assert_eq!(folded(&[NamedRun { name, run }]), [format!("{shown}/é;{shown} 10")]);
        // A file may contain a stage of a thousand years.
        let endless = folded(&[one(CASE, &[&[("a", 0.0, 3e19)]])]);
        assert!(endless[0].ends_with(";a 1000000000000000"), "{endless:?}");
    }
}

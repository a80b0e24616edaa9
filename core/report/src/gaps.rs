//! Idle gaps of the device within traced executions, with their causes.

use parallax_schema::device::{Span, SpanKind, Trace, Track};
use parallax_schema::grouped;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Record, Run};
use parallax_schema::units::{Nanos, percent};

use super::executions::{begins, is_work};

/// Shortest gap that is named: launches of dependent kernels follow one another in about this time.
const SHORTEST: Nanos = Nanos(1_000.0);
/// Smallest share of an execution from which a gap is named.
const SHARE: f64 = 0.03;
/// Largest number of gaps that are named.
const MOST: usize = 3;

/// Time in which the device does nothing between two works of an execution.
#[derive(Debug, Clone, PartialEq)]
struct Gap<'t> {
    after: &'t str,
    before: &'t str,
    time: f64,
    /// Share of the execution.
    share: f64,
    /// Time from the end of the work before it to the end of the submission of the work after it; negative for one in time.
    late: f64,
}

/// Returns a line for each of the longest idle gaps of a case: place, time, share and cause. Empty without a trace.
pub fn idle_gaps(record: &Record, run: &Run) -> Vec<String> {
    let Some(trace) = record.measured().and_then(|measured| measured.trace.as_ref()) else { return Vec::new() };
    let error = trace.alignment_error.map_or(0.0, |error| error.0);
    let each = grouped(all(trace).into_iter().map(|gap| ((gap.after, gap.before), gap)));
    let median = |of: &dyn Fn(&Gap) -> f64, gaps: &[Gap]| {
        Summary::of(&gaps.iter().map(of).collect::<Vec<_>>()).map_or(0.0, |summary| summary.median.0)
    };
    let typical = |((after, before), gaps): ((_, _), Vec<Gap>)| {
        let [time, share, late] =
            [median(&|gap| gap.time, &gaps), median(&|gap| gap.share, &gaps), median(&|gap| gap.late, &gaps)];
        Gap { after, before, time, share, late }
    };
    let mut gaps: Vec<Gap> = each.into_iter().map(typical).collect();
    gaps.retain(|gap| gap.time >= SHORTEST.0 && gap.share >= SHARE);
    gaps.sort_by(|a, b| b.time.total_cmp(&a.time));
    gaps.truncate(MOST);
    gaps.iter().map(|gap| line(gap, error, &run.target)).collect()
}

fn line(gap: &Gap, error: f64, target: &str) -> String {
    let Gap { after, before, time, share, late } = gap;
    let cause = match (*late > error, target) {
        (true, "cuda") => format!(
            "the host submits `{before}` {} after the end of `{after}`; `--launch graph` submits all stages at once",
            Nanos(*late)
        ),
        (true, _) => format!("the host submits `{before}` {} after the end of `{after}`", Nanos(*late)),
        (false, _) => format!("`{before}` was submitted in time, and the device starts it late"),
    };
    format!("idle for {} ({}) between `{after}` and `{before}`: {cause}", Nanos(*time), percent(*share))
}

/// Returns the gaps of all executions. Works of several streams may overlap: a gap has none at all.
fn all(trace: &Trace) -> Vec<Gap<'_>> {
    trace.spans.chunk_by(|_, next| !begins(next)).flat_map(of_execution).collect()
}

fn of_execution(spans: &[Span]) -> Vec<Gap<'_>> {
    let mut work: Vec<&Span> = spans.iter().filter(|span| is_work(span)).collect();
    work.sort_by(|a, b| a.start.0.total_cmp(&b.start.0));
    // Of several calls with one number, the last one launched.
    let submitted = |span: &Span| {
        let calls = spans.iter().filter(|call| call.track == Track::Host && call.kind == SpanKind::Runtime);
        calls
            .filter(|call| call.correlation.is_some() && call.correlation == span.correlation)
            .map(|call| call.end.0)
            .next_back()
    };
    let Some((first, rest)) = work.split_first() else { return Vec::new() };
    let last = work.iter().map(|span| span.end.0).fold(f64::NEG_INFINITY, f64::max);
    let whole = last - first.start.0;
    let (mut before, mut gaps) = (*first, Vec::new());
    for span in rest {
        let time = span.start.0 - before.end.0;
        if time > 0.0 {
            let late = submitted(span).map_or(f64::NEG_INFINITY, |at| at - before.end.0);
            gaps.push(Gap { after: &before.name, before: &span.name, time, share: time / whole, late });
        }
        if span.end.0 > before.end.0 {
            before = span;
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{measured, run, spread};

    const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";

    /// Spans of one execution: each work has its name, its submission's end, begin and end, in microseconds.
    fn said(target: &str, works: &[(&str, f64, f64, f64)]) -> Vec<String> {
        let mut run = run(target, "X", &[(CASE, spread(12_000.0, 0.002, 40))]);
        let span = |track, kind, name: &str, number: usize, start: f64, end: f64| Span {
            name: name.to_owned(),
            track,
            kind,
            start: Nanos(start * 1e3),
            end: Nanos(end * 1e3),
            correlation: u32::try_from(number).ok(),
            ..Span::default()
        };
        let mark = span(Track::Host, SpanKind::Annotation, "execution", 99, 0.0, 1.0);
        let calls = works.iter().enumerate();
        let calls = calls.map(|(i, (_, at, ..))| span(Track::Host, SpanKind::Runtime, "launch", i, at - 0.5, *at));
        let device = works.iter().enumerate();
        let device = device.map(|(i, (name, _, start, end))| span(Track::Gpu, SpanKind::Kernel, name, i, *start, *end));
        let spans: Vec<Span> = std::iter::once(mark).chain(calls).chain(device).collect();
        let spans = [&spans[..], &spans[..]].concat();
        measured(&mut run, CASE).trace = Some(Trace { spans, alignment_error: Some(Nanos(100.0)), source: None });
        idle_gaps(&run.records[0], &run)
    }

    #[test]
    fn a_gap_has_its_cause() {
        let late = [("a", 1.0, 2.0, 10.0), ("b", 14.0, 15.0, 20.0)];
        let want = "idle for 5.00 µs (27.8 %) between `a` and `b`: the host submits `b` 4.00 µs after the end of `a`";
        assert_eq!(said("wgpu", &late), [want]);
        assert_eq!(said("cuda", &late), [format!("{want}; `--launch graph` submits all stages at once")]);
        let in_time = said("cuda", &[("a", 1.0, 2.0, 10.0), ("b", 3.0, 15.0, 20.0)]);
        assert!(in_time[0].ends_with("`b` was submitted in time, and the device starts it late"), "{in_time:?}");
    }

    #[test]
    fn work_on_another_stream_leaves_no_gap() {
        assert_eq!(said("cuda", &[("a", 1.0, 2.0, 10.0), ("copy", 1.5, 3.0, 16.0), ("b", 14.0, 15.0, 20.0)]), [""; 0]);
        assert_eq!(said("cuda", &[("a", 1.0, 2.0, 10.0), ("b", 3.0, 10.5, 20.0)]), [""; 0], "short");
        assert_eq!(said("cuda", &[("a", 1.0, 2.0, 100.0), ("b", 3.0, 101.5, 200.0)]), [""; 0], "a small share");
    }
}

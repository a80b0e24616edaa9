//! One traced execution of a file: its spans, their order, and their numbers.

use std::collections::{HashMap, HashSet};

use parallax_schema::device::{Span, SpanKind, Track};

use crate::trace::event::whole;

/// The spans of one execution.
pub(super) struct Execution<'s> {
    /// Its mark in the schedule, if any.
    pub step: Option<&'s Span>,
    /// Calls of the host in order; outer ones before those inside.
    pub host: Vec<&'s Span>,
    /// Work of the device in order.
    pub device: Vec<&'s Span>,
}

fn is_step(span: &Span) -> bool {
    span.kind == SpanKind::Annotation && span.track == Track::Host
}

impl Execution<'_> {
    /// Returns the executions of a trace: a mark of the schedule begins each.
    pub fn all(spans: &[Span]) -> impl Iterator<Item = Execution<'_>> {
        spans.chunk_by(|_, next| !is_step(next)).map(|spans| {
            let on = |track| {
                let mut list: Vec<&Span> = spans.iter().filter(|s| s.track == track && !is_step(s)).collect();
                list.sort_by_key(|s| (whole(s.start), std::cmp::Reverse(whole(s.end))));
                list
            };
            Execution { step: spans.first().filter(|s| is_step(s)), host: on(Track::Host), device: on(Track::Gpu) }
        })
    }
}

/// New correlation numbers for one execution. Backends restart at a small number in each execution. Readers of a file join by
/// number alone: every host event with a kernel's number counts as its launch.
pub(super) struct Correlations {
    /// Number of each host span.
    pub host: Vec<u64>,
    /// Number of each device span.
    pub device: Vec<u64>,
    /// Numbers with an end on the host and one on the device.
    pub joined: HashSet<u64>,
}

impl Correlations {
    /// Assigns numbers after `last` and advances it.
    pub fn of(execution: &Execution<'_>, last: &mut u64) -> Correlations {
        let mut next = || {
            *last += 1;
            *last
        };
        let host: Vec<u64> = execution.host.iter().map(|_| next()).collect();
        // Of several calls with one number, the last one launched: encoding precedes it, and waiting is no call.
        let launchers: HashMap<u32, u64> = execution
            .host
            .iter()
            .zip(&host)
            .filter(|(span, _)| span.kind == SpanKind::Runtime)
            .filter_map(|(span, number)| Some((span.correlation?, *number)))
            .collect();
        let mut joined = HashSet::new();
        let mut join = |span: &Span| {
            let launcher = launchers.get(&span.correlation?).copied()?;
            joined.insert(launcher);
            Some(launcher)
        };
        let device = execution.device.iter().map(|span| join(span).unwrap_or_else(&mut next)).collect();
        Correlations { host, device, joined }
    }
}

/// Makes slices of one thread nest: a slice that exceeds the slice around it begins at the end of that slice.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    open: Vec<i64>,
}

impl Nesting {
    /// Places a slice after all slices that began before it.
    pub fn place(&mut self, mut start: i64, end: i64) -> (i64, i64) {
        let end = end.max(start);
        while let Some(&until) = self.open.last() {
            if until <= start {
                self.open.pop();
            } else if end <= until {
                break;
            } else {
                start = until;
            }
        }
        self.open.push(end);
        (start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::units::Nanos;

    fn span(kind: SpanKind, start: f64, end: f64, correlation: Option<u32>) -> Span {
        let track = if kind == SpanKind::Kernel { Track::Gpu } else { Track::Host };
        Span { kind, track, start: Nanos(start), end: Nanos(end), correlation, ..Span::default() }
    }

    #[test]
    fn numbers_join_one_call_to_its_kernels_in_its_execution_only() {
        use SpanKind::{Annotation, Kernel, Runtime, Wait};
        let one = [
            span(Annotation, 0.0, 50.0, None),
            span(Runtime, 0.0, 5.0, Some(1)),
            span(Runtime, 5.0, 10.0, Some(1)),
            span(Wait, 10.0, 50.0, Some(1)),
            span(Kernel, 30.0, 40.0, Some(1)),
            span(Kernel, 20.0, 30.0, Some(1)),
            span(Kernel, 40.0, 45.0, None),
        ];
        let spans = [&one[..], &one[..]].concat();
        let mut last = 0;
        let got: Vec<_> = Execution::all(&spans)
            .map(|e| {
                assert!(e.step.is_some());
                assert_eq!(e.device[0].start, Nanos(20.0), "in order of time");
                let Correlations { host, device, joined } = Correlations::of(&e, &mut last);
                (host, device, joined.into_iter().collect::<Vec<_>>())
            })
            .collect();
        let want = [(vec![1, 2, 3], vec![2, 2, 4], vec![2]), (vec![5, 6, 7], vec![6, 6, 8], vec![6])];
        assert_eq!(got, want);
    }

    #[test]
    fn slices_nest_or_follow() {
        let mut nesting = Nesting::default();
        let mut place = |start, end| nesting.place(start, end);
        assert_eq!(place(0, 100), (0, 100));
        assert_eq!(place(10, 50), (10, 50));
        assert_eq!(place(40, 80), (50, 80), "cut where it left the one before, still inside the first");
        assert_eq!(place(80, 90), (80, 90));
        assert_eq!(place(90, 120), (100, 120));
        assert_eq!(place(130, 120), (130, 130));
    }
}

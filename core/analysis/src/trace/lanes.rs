//! The device's side of a file: a process for each device, a thread for each of its streams.

use std::collections::BTreeMap;

use parallax_schema::device::Span;

use crate::trace::event::{Event, Thread, whole};
use crate::trace::{DEVICE, STREAM};

/// Returns the lane of a device span.
pub(super) fn of(span: &Span) -> Thread {
    (span.device, span.stream.unwrap_or(STREAM))
}

/// Returns the events for name and place of a process.
pub(super) fn process(program: &str, pid: u32, label: String, order: u32) -> [Event; 3] {
    [
        Event::fact("process_name", (pid, 0), "name", program.to_owned()),
        Event::fact("process_labels", (pid, 0), "labels", label),
        Event::fact("process_sort_index", (pid, 0), "sort_index", order),
    ]
}

/// Returns the events of a device's process. Kineto's order: the host first, devices far behind.
pub(super) fn device(program: &str, device: u32) -> [Event; 3] {
    process(program, device, format!("GPU {device}"), 5_000_000 + device)
}

/// Returns the events for name and place of a thread.
pub(super) fn thread(thread: Thread, name: String) -> [Event; 2] {
    [Event::fact("thread_name", thread, "name", name), Event::fact("thread_sort_index", thread, "sort_index", thread.1)]
}

/// Lanes of a file so far, with the time from which each is free.
#[derive(Debug)]
pub(super) struct Lanes {
    program: String,
    free: BTreeMap<Thread, i64>,
}

impl Lanes {
    pub fn of(program: String) -> Lanes {
        Lanes { program, free: BTreeMap::new() }
    }

    /// Returns the names of a lane at its first use. The opening names the first device's process.
    pub fn names_of(&mut self, lane: Thread) -> Vec<Event> {
        if self.free.contains_key(&lane) {
            return Vec::new();
        }
        let known = lane.0 == DEVICE || self.free.keys().any(|other| other.0 == lane.0);
        self.free.insert(lane, i64::MIN);
        let process = (!known).then(|| device(&self.program, lane.0));
        let thread = thread(lane, format!("stream {}", lane.1));
        process.into_iter().flatten().chain(thread).collect()
    }

    /// Starts to place the device's work of one execution, in order of its begin, `shift` later than recorded.
    pub fn place<'l>(&'l mut self, spans: &[&Span], shift: i64) -> Placing<'l> {
        // The wait for an execution ends before the next begins, so all of this one comes after all earlier work. The distance is
        // computed before the first placement, so that overlap across lanes stays.
        let ended = self.free.values().copied().max().unwrap_or(i64::MIN);
        let begins = spans.first().map_or(i64::MAX, |span| whole(span.start) + shift);
        let moved = ended.saturating_sub(begins).max(0);
        Placing { lanes: self, shift, moved }
    }
}

/// Placement of the work of one execution on its lanes.
#[derive(Debug)]
pub(super) struct Placing<'l> {
    pub lanes: &'l mut Lanes,
    shift: i64,
    /// Distance by which the work is moved back so far.
    pub moved: i64,
}

impl Placing<'_> {
    /// Returns the place of the next span; spans arrive in the order of their begin.
    ///
    /// Work of a stream is sequential. Where the alignment of the clocks is too rough to show this, later work moves back on
    /// every lane alike and keeps its length.
    pub fn next(&mut self, span: &Span) -> (i64, i64) {
        let free = self.lanes.free.entry(of(span)).or_insert(i64::MIN);
        let start = whole(span.start) + self.shift + self.moved;
        let start = if start < *free {
            self.moved += *free - start;
            *free
        } else {
            start
        };
        let end = start + (whole(span.end) - whole(span.start)).max(0);
        *free = end;
        (start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::units::Nanos;

    fn span(device: u32, stream: Option<u32>, start: f64, end: f64) -> Span {
        Span { device, stream, start: Nanos(start), end: Nanos(end), ..Span::default() }
    }

    fn placed(lanes: &mut Lanes, spans: &[Span]) -> Vec<(i64, i64)> {
        let spans: Vec<&Span> = spans.iter().collect();
        let mut placing = lanes.place(&spans, 0);
        spans.iter().map(|span| placing.next(span)).collect()
    }

    #[test]
    fn overlap_across_lanes_stays_and_within_a_lane_it_goes() {
        let mut lanes = Lanes::of(String::new());
        let both = [span(0, Some(7), 0.0, 100.0), span(0, Some(9), 20.0, 80.0), span(1, Some(7), 30.0, 60.0)];
        assert_eq!(placed(&mut lanes, &both), [(0, 100), (20, 80), (30, 60)], "as it was");
        // The next execution seems to begin before the last one ended, on one lane only: all of it moves, as one.
        let next = [span(0, Some(9), 70.0, 120.0), span(0, Some(7), 90.0, 150.0)];
        assert_eq!(placed(&mut lanes, &next), [(100, 150), (120, 180)]);
        // Two spans of one lane that overlap are separated, and later work keeps its distance on every lane.
        let within = [span(0, None, 200.0, 230.0), span(0, None, 220.0, 240.0), span(0, Some(9), 225.0, 300.0)];
        assert_eq!(placed(&mut lanes, &within), [(200, 230), (230, 250), (235, 310)], "no stream is stream 7");
    }

    #[test]
    fn a_lane_is_named_once_and_its_device_with_the_first_of_them() {
        let mut lanes = Lanes::of("program".to_owned());
        let mut names = |lane| -> Vec<&'static str> {
            let named: Vec<Event> = lanes.names_of(lane);
            named.iter().map(|event| if event.name.starts_with("process") { "process" } else { "thread" }).collect()
        };
        assert_eq!(names((0, 7)), ["thread"; 2]);
        assert!(names((0, 7)).is_empty());
        assert_eq!(names((0, 9)), ["thread"; 2]);
        assert_eq!(names((1, 7)), ["process", "process", "process", "thread", "thread"]);
        assert_eq!(names((1, 8)), ["thread"; 2]);
    }
}

//! Layout of a file: from records, one at a time, to events, one at a time.

use std::collections::{BTreeSet, HashMap, VecDeque};

use parallax_schema::catalog::{Catalog, StageFacts};
use parallax_schema::device::{Caps, Launch, Span, SpanKind};
use parallax_schema::record::{Measured, Record, Run};
use serde_json::{Map, Value, json};

use crate::trace::axis::Axis;
use crate::trace::counters::Held;
use crate::trace::event::{Event, Thread, whole};
use crate::trace::execution::{Correlations, Execution, Nesting};
use crate::trace::lanes::Lanes;
use crate::trace::{DEVICE, HOST, HOST_THREAD, args, counters, lanes};

const CALLS: Thread = (HOST, HOST_THREAD);

/// State of earlier records that the layout of the next one needs. It grows with the number of records, not of spans.
#[derive(Debug)]
pub struct Layout {
    caps: Caps,
    shapes: bool,
    axis: Axis,
    lanes: Lanes,
    correlation: u64,
    external: u64,
    /// Memory of every case, where the run asked for it.
    held: Option<Vec<Held>>,
    sources: BTreeSet<&'static str>,
    alignment_error: Option<f64>,
}

/// The host's side of a record, in whole nanoseconds on the profiler's clock.
struct Phases<'r> {
    list: Vec<(&'r str, i64, i64)>,
}

impl Phases<'_> {
    /// Returns the phases in order and without overlap.
    fn of(measured: &Measured) -> Phases<'_> {
        let mut free = i64::MIN;
        let list = measured.phases.iter().map(|phase| {
            let start = whole(phase.start).max(free);
            free = whole(phase.end).max(start);
            (phase.name.as_str(), start, free)
        });
        Phases { list: list.collect() }
    }

    /// Returns stretches of time: phases that touch form one, and other cases ran in between.
    fn stretches(&self) -> Vec<(i64, i64)> {
        self.list.chunk_by(|a, b| a.2 == b.1).map(|run| (run[0].1, run[run.len() - 1].2)).collect()
    }

    /// Returns the place of traced executions.
    fn traced(&self) -> (i64, i64) {
        let named = self.list.iter().find(|(name, ..)| *name == "trace").or(self.list.last());
        named.map_or((0, 0), |(_, start, end)| (*start, *end))
    }
}

impl Layout {
    /// Returns the layout of a run's file before its first record.
    pub fn of(run: &Run) -> Layout {
        Layout {
            caps: run.device().caps.clone(),
            shapes: run.spec.record_shapes,
            axis: Axis::default(),
            lanes: Lanes::of(program(run)),
            correlation: 0,
            external: 0,
            held: run.spec.profile_memory.then(Vec::new),
            sources: BTreeSet::new(),
            alignment_error: None,
        }
    }

    /// Returns names and order of processes and of the host's thread; device lanes are named at their first work.
    pub(super) fn names(run: &Run) -> Vec<Event> {
        let program = program(run);
        [
            &lanes::process(&program, HOST, "CPU".to_owned(), HOST)[..],
            &lanes::thread(CALLS, format!("thread {HOST_THREAD} (parallax)")),
            &lanes::device(&program, DEVICE),
        ]
        .concat()
    }

    /// Emits the events of a record, one at a time. Records without a result have none.
    ///
    /// # Errors
    ///
    /// Errors of `emit`; the layout is of no use after that.
    pub fn record<E>(
        &mut self,
        record: &Record,
        catalog: &dyn Catalog,
        emit: &mut impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(measured) = record.measured() else { return Ok(()) };
        let phases = Phases::of(measured);
        let stretches = phases.stretches();
        let (Some(&(begin, _)), Some(&(_, end))) = (stretches.first(), stretches.last()) else { return Ok(()) };
        let shift = self.axis.place(&stretches);
        let about = args::case(record, measured, self.shapes);
        for (start, end) in stretches {
            let at = (start + shift, end + shift);
            emit(Event::slice("user_annotation", &record.case, CALLS, at, about.clone()))?;
        }
        for (name, start, end) in &phases.list {
            emit(Event::slice("user_annotation", name, CALLS, (start + shift, end + shift), Map::new()))?;
        }
        if let Some(held) = &mut self.held {
            // Buffers exist from the end of the preparation, and are dropped with the case.
            let prepared = phases.list.first().map_or(begin, |(_, _, end)| *end);
            held.push(Held { from: prepared + shift, to: end + shift, memory: measured.memory });
        }
        let Some(trace) = &measured.trace else { return Ok(()) };
        self.sources.extend(trace.source.map(args::source));
        if let Some(error) = trace.alignment_error {
            self.alignment_error = Some(self.alignment_error.map_or(error.0, |worst| worst.max(error.0)));
        }
        let (from, to) = phases.traced();
        let mut room = (from + shift, to + shift);
        let operator = Operator::of(record, (catalog, &self.caps), self.shapes);
        for execution in Execution::all(&trace.spans) {
            room.0 = self.execution(&execution, &operator, &measured.launches, shift, room, emit)?;
        }
        Ok(())
    }

    /// Emits one execution inside `room` on the host; returns the time from which the host is free again.
    fn execution<E>(
        &mut self,
        execution: &Execution<'_>,
        operator: &Operator<'_>,
        launches: &[Launch],
        shift: i64,
        (from, to): (i64, i64),
        emit: &mut impl FnMut(Event) -> Result<(), E>,
    ) -> Result<i64, E> {
        let inside = |time| (whole(time) + shift).clamp(from, to);
        let around = execution.host.iter().copied().chain(execution.step);
        let (start, end) =
            around.fold((to, from), |(start, end), s| (start.min(inside(s.start)), end.max(inside(s.end))));
        let whole_time = (start.min(end), end);
        self.external += 1;
        let external = self.external;
        let numbers = Correlations::of(execution, &mut self.correlation);
        if let Some(step) = execution.step {
            emit(Event::slice("user_annotation", &step.name, CALLS, whole_time, Map::new()))?;
        }
        let mut about = args::map([("External id", json!(external))]);
        about.extend(operator.inputs.clone());
        emit(Event::slice("cpu_op", &operator.name, CALLS, whole_time, about))?;

        let mut nesting = Nesting::default();
        for (span, number) in execution.host.iter().zip(&numbers.host) {
            let (start, end) = nesting.place(inside(span.start), inside(span.end));
            emit(call(span, (start, end), external, *number))?;
            if numbers.joined.contains(number) {
                emit(Event::launches(*number, CALLS, start))?;
            }
        }

        let mut arrows = numbers.joined;
        let mut component = Around::default();
        let mut launches = Launches::of(launches);
        let mut placing = self.lanes.place(&execution.device, shift);
        for (span, number) in execution.device.iter().zip(&numbers.device) {
            let lane = lanes::of(span);
            placing.lanes.names_of(lane).into_iter().try_for_each(&mut *emit)?;
            let (start, end) = placing.next(span);
            let moved = placing.moved;
            self.axis.reach(end);
            component.next(operator.component(&span.name), lane, (start, end)).map_or(Ok(()), &mut *emit)?;
            let mut args = args::device(external, *number, lane);
            if moved > 0 {
                args.insert("moved_ns".to_owned(), json!(moved));
            }
            args.insert("case".to_owned(), json!(operator.case));
            emit(work(span, (start, end), args, &mut launches, &self.caps))?;
            // One arrow per launch, to the first work that it launched.
            if arrows.remove(number) {
                emit(Event::launched(*number, lane, start))?;
            }
        }
        component.end().map_or(Ok(()), emit)?;
        Ok(end.max(from))
    }

    /// Emits the events that need the whole run: memory, and the reference kernel.
    ///
    /// # Errors
    ///
    /// Errors of `emit`.
    pub fn end<E>(&self, run: &Run, emit: &mut impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
        counters::drift(&run.drift, &self.axis, emit)?;
        counters::memory(self.held.as_deref().unwrap_or_default(), emit)
    }

    /// Sources of the device's spans, each once.
    pub(super) fn sources(&self) -> Vec<&'static str> {
        self.sources.iter().copied().collect()
    }

    /// Largest error of the device's track against the host's, in nanoseconds.
    pub(super) fn alignment_error(&self) -> Option<f64> {
        self.alignment_error
    }
}

/// Returns the name of a run's processes.
fn program(run: &Run) -> String {
    format!("parallax {} · {}", run.way(), run.device().name)
}

/// Operator of every execution of a case.
struct Operator<'r> {
    name: String,
    case: &'r str,
    inputs: Map<String, Value>,
    /// Component of each stage that has one, by label.
    components: HashMap<String, &'static str>,
}

impl Operator<'_> {
    fn of<'r>(record: &'r Record, (catalog, caps): (&dyn Catalog, &Caps), shapes: bool) -> Operator<'r> {
        let stages = catalog.stages(record, caps).unwrap_or_default();
        let component = |stage: StageFacts| Some((stage.label, stage.component?));
        Operator {
            name: format!("parallax::{}_{}", record.parts.workload, record.parts.direction),
            case: &record.case,
            inputs: if shapes { args::inputs(record, catalog) } else { Map::new() },
            components: stages.into_iter().filter_map(component).collect(),
        }
    }

    /// Returns the component of a stage.
    fn component(&self, stage: &str) -> Option<&'static str> {
        self.components.get(stage).copied()
    }
}

/// A mark around consecutive work of one component on a lane.
#[derive(Default)]
struct Around {
    open: Option<(&'static str, Thread, (i64, i64))>,
}

impl Around {
    /// Adds the next work; returns the mark that it ends, if any.
    fn next(&mut self, component: Option<&'static str>, lane: Thread, (start, end): (i64, i64)) -> Option<Event> {
        if let Some((open, of, (_, until))) = &mut self.open
            && component == Some(*open)
            && lane == *of
        {
            *until = end;
            return None;
        }
        let ended = self.end();
        self.open = component.map(|component| (component, lane, (start, end)));
        ended
    }

    /// Returns the mark that is still open.
    fn end(&mut self) -> Option<Event> {
        let (component, lane, at) = self.open.take()?;
        Some(Event::slice("gpu_user_annotation", component, lane, at, Map::new()))
    }
}

/// Launches of a case, in the order of its kernels.
struct Launches<'r> {
    left: VecDeque<&'r Launch>,
}

impl<'r> Launches<'r> {
    fn of(launches: &'r [Launch]) -> Launches<'r> {
        Launches { left: launches.iter().collect() }
    }

    /// Returns the next launch of the stage with this label. A library may run kernels of its own in between.
    fn next(&mut self, label: &str) -> Option<&'r Launch> {
        let at = self.left.iter().position(|launch| launch.label() == label)?;
        self.left.remove(at)
    }
}

/// Returns the event of one host span.
fn call(span: &Span, at: (i64, i64), external: u64, number: u64) -> Event {
    let mut args = args::map([("External id", json!(external)), ("correlation", json!(number))]);
    if !span.stack.is_empty() {
        args.insert("Call stack".to_owned(), json!(span.stack.join(";")));
    }
    // CUDA's driver has names in `cu`, its runtime in `cuda`; Kineto keeps them apart.
    let driver = span.name.starts_with("cu") && !span.name.starts_with("cuda");
    Event::slice(if driver { "cuda_driver" } else { "cuda_runtime" }, &span.name, CALLS, at, args)
}

/// Returns the event of one device span.
fn work(span: &Span, at: (i64, i64), mut args: Map<String, Value>, launches: &mut Launches<'_>, caps: &Caps) -> Event {
    let lane = lanes::of(span);
    match span.kind {
        SpanKind::Memcpy | SpanKind::Memset => {
            args.extend(args::moved(span.bytes, span.end - span.start));
            let (category, word) =
                if span.kind == SpanKind::Memcpy { ("gpu_memcpy", "Memcpy") } else { ("gpu_memset", "Memset") };
            // Scripts distinguish kernels from copies and fills by the first word of their names.
            if let Some(symbol) = span.symbol.as_deref().filter(|symbol| symbol.starts_with(word)) {
                args.insert("stage".to_owned(), json!(span.name));
                return Event::slice(category, symbol, lane, at, args);
            }
            let name = if span.name.starts_with(word) { span.name.clone() } else { format!("{word} ({})", span.name) };
            Event::slice(category, &name, lane, at, args)
        }
        _ => {
            args.extend(launches.next(&span.name).map(|l| args::launch(l, caps)).unwrap_or_default());
            args.extend(span.symbol.as_ref().map(|symbol| ("symbol".to_owned(), json!(symbol))));
            Event::slice("kernel", &span.name, lane, at, args)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_has_a_mark_on_each_lane_for_as_long_as_nothing_comes_between() {
        let (one, other) = ((0, 7), (0, 9));
        let work = [
            (Some("forward"), one, (0, 10)),
            (Some("forward"), one, (12, 20)),
            (Some("forward"), other, (15, 25)),
            (Some("backward"), one, (20, 30)),
            (None, one, (30, 40)),
            (Some("backward"), one, (40, 50)),
        ];
        let mut around = Around::default();
        let mut marks: Vec<Event> =
            work.into_iter().filter_map(|(component, lane, at)| around.next(component, lane, at)).collect();
        marks.extend(around.end());
        assert_eq!(around.end(), None);
        let told: Vec<_> =
            marks.iter().map(|mark| (mark.name.as_str(), (mark.pid, mark.tid), mark.ts, mark.dur)).collect();
        let want = [
            ("forward", one, 0.0, Some(0.02)),
            ("forward", other, 0.015, Some(0.01)),
            ("backward", one, 0.02, Some(0.01)),
            ("backward", one, 0.04, Some(0.01)),
        ];
        assert_eq!(told, want);
    }
}

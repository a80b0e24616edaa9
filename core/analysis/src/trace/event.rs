//! One event of the Trace Event Format.

use parallax_schema::units::Nanos;
use serde::Serialize;
use serde_json::{Map, Value};

/// A slice, an instant, a counter, an end of an arrow, or a name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Phase: `X` a slice, `i` an instant, `C` a counter, `s` and `f` the ends of an arrow, `M` a name.
    pub ph: &'static str,
    /// Category, in Kineto's words.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub cat: &'static str,
    /// Name of the slice or counter.
    pub name: String,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Time in microseconds.
    pub ts: f64,
    /// Length of a slice in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur: Option<f64>,
    /// Number that joins the ends of an arrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Binding of an arrow: `e`, to the slice around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bp: Option<&'static str>,
    /// Scope of an instant: `t`, its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s: Option<&'static str>,
    /// Further arguments.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
}

/// A process and a thread in it.
pub(super) type Thread = (u32, u32);

/// Returns a time in whole nanoseconds. Every time of a trace is rounded before comparisons, so that slices nest or touch in the
/// file as they do in whole nanoseconds.
pub(super) fn whole(time: Nanos) -> i64 {
    time.0.round() as i64
}

fn micros(nanos: i64) -> f64 {
    nanos as f64 / 1e3
}

impl Event {
    fn of(ph: &'static str, cat: &'static str, name: &str, (pid, tid): Thread, at: i64) -> Event {
        Event {
            ph,
            cat,
            name: name.to_owned(),
            pid,
            tid,
            ts: micros(at),
            dur: None,
            id: None,
            bp: None,
            s: None,
            args: Map::new(),
        }
    }

    /// Returns a slice between two times in whole nanoseconds.
    pub(super) fn slice(
        cat: &'static str,
        name: &str,
        thread: Thread,
        (start, end): (i64, i64),
        args: Map<String, Value>,
    ) -> Event {
        Event { dur: Some(micros(end - start)), args, ..Event::of("X", cat, name, thread, start) }
    }

    /// Returns the end of an arrow at the call that launched work.
    pub(super) fn launches(correlation: u64, thread: Thread, at: i64) -> Event {
        Event { id: Some(correlation), ..Event::of("s", "ac2g", "ac2g", thread, at) }
    }

    /// Returns the end of an arrow at the launched work.
    pub(super) fn launched(correlation: u64, thread: Thread, at: i64) -> Event {
        Event { id: Some(correlation), bp: Some("e"), ..Event::of("f", "ac2g", "ac2g", thread, at) }
    }

    /// Returns an instant on a thread.
    pub(super) fn instant(cat: &'static str, name: &str, thread: Thread, at: i64, args: Map<String, Value>) -> Event {
        Event { s: Some("t"), args, ..Event::of("i", cat, name, thread, at) }
    }

    /// Returns the value of a counter from `at` on.
    pub(super) fn counter(name: &str, pid: u32, at: i64, unit: &str, value: impl Into<Value>) -> Event {
        let args = Map::from_iter([(unit.to_owned(), value.into())]);
        Event { args, ..Event::of("C", "", name, (pid, 0), at) }
    }

    /// Returns a fact about a process or a thread.
    pub(super) fn fact(what: &str, thread: Thread, key: &str, value: impl Into<Value>) -> Event {
        let args = Map::from_iter([(key.to_owned(), value.into())]);
        Event { args, ..Event::of("M", "", what, thread, 0) }
    }
}

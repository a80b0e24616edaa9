//! Counters over the run: the device's memory, the reference kernel and the sensors.

use parallax_schema::device::MemoryStats;
use parallax_schema::record::Drift;
use serde_json::json;

use crate::trace::args::map;
use crate::trace::axis::Axis;
use crate::trace::event::{Event, whole};
use crate::trace::{DEVICE, HOST, HOST_THREAD};

/// Memory of one case between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub from: i64,
    pub to: i64,
    pub memory: MemoryStats,
}

/// Emits every allocation and release in the form of PyTorch's profiler, and a counter of the held memory.
pub(super) fn memory<E>(held: &[Held], emit: &mut impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
    let mut steps: Vec<(i64, i64, usize)> = Vec::new();
    for (address, one) in held.iter().enumerate() {
        let bytes = i64::try_from(one.memory.current.0).unwrap_or(i64::MAX);
        steps.extend([(one.from, bytes, address), (one.to, -bytes, address)]);
    }
    // Releases precede allocations of the same moment, so that the counter shows no false peak.
    steps.sort();
    let mut total: i64 = 0;
    for (at, bytes, address) in steps {
        total += bytes;
        let mut args = map([
            ("Device Type", json!(1)),
            ("Device Id", json!(DEVICE)),
            ("Addr", json!(address)),
            ("Bytes", json!(bytes)),
            ("Total Allocated", json!(total)),
        ]);
        if let Some(reserved) = held[address].memory.reserved {
            args.insert("Total Reserved".to_owned(), json!(reserved));
        }
        emit(Event::instant("cpu_instant_event", "[memory]", (HOST, HOST_THREAD), at, args))?;
        emit(Event::counter("device memory", DEVICE, at, "bytes", total))?;
    }
    Ok(())
}

/// Emits the reference kernel's time between rounds, and the sensors.
pub(super) fn drift<E>(drift: &[Drift], axis: &Axis, emit: &mut impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
    let mut restarts = 0;
    let mut last = i64::MIN;
    for look in drift {
        let at = whole(look.at);
        restarts += usize::from(at < last);
        last = at;
        let at = at + axis.shift_after(restarts);
        emit(Event::counter("reference kernel", DEVICE, at, "us", look.reference_kernel.0 / 1e3))?;
        let sensors = &look.conditions;
        for (name, unit, value) in [
            ("SM clock", "MHz", sensors.sm_clock_mhz),
            ("memory clock", "MHz", sensors.memory_clock_mhz),
            ("temperature", "degrees Celsius", sensors.temperature_c),
            ("power", "W", sensors.power_w),
        ] {
            if let Some(value) = value {
                emit(Event::counter(name, DEVICE, at, unit, value))?;
            }
        }
    }
    Ok(())
}

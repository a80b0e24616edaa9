//! What a workload is to the engine besides something to measure: a probe for what the device can do.

/// A problem by which the engine gets to know a device. The workload whose form has it says how large it is; the engine
/// asks for a kind of probe and never for a workload by name.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// What it finds out.
    pub finds: Finds,
    /// The shape, as in a case string; `None` where this device needs no such probe.
    pub shape: fn(Scale) -> Option<String>,
    /// Variants that may carry it out; empty for all.
    pub variants: &'static [&'static str],
}

/// What a probe finds out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finds {
    /// Throughput of the memory that holds a working set.
    Bandwidth,
    /// The rate of the arithmetic units, for one element type.
    Arithmetic,
    /// The rate of the matrix units, for one element type.
    Matrix,
    /// Time of a launch that does nearly nothing.
    Dispatch,
    /// Throughput of the link from the host's pinned memory to the device, as timed work sees it.
    Upload,
    /// The same from the device to the host.
    Download,
    /// The device's own speed, again and again: pure arithmetic that no memory and no cache disturbs.
    Speed,
}

/// How large a probe is to be.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// The device is emulated on the host's processor: slow, and without caches of its own.
    pub emulated: bool,
    /// Bytes that an execution of a probe touches in memory, or moves over the link.
    pub working_set: u64,
    /// So many times as long as usual, for a probe of speed.
    pub longer: u64,
}

impl Scale {
    /// The usual size on such a device.
    pub fn usual(emulated: bool) -> Scale {
        Scale { emulated, working_set: 0, longer: 1 }
    }
}

//! Probes: workloads that measure capabilities of the device for the engine.

/// Problem that measures a property of a device. The specification of its workload defines its size. The engine selects probes by
/// kind, never a workload by name.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Property that it measures.
    pub finds: Finds,
    /// Shape, as in a case string; `None` if this device needs no such probe.
    pub shape: fn(Scale) -> Option<String>,
    /// Variants that may run it; empty for all.
    pub variants: &'static [&'static str],
}

/// Property of a device that a probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finds {
    /// Throughput of the memory that holds a working set.
    Bandwidth,
    /// Rate of the arithmetic units, for one element type.
    Arithmetic,
    /// Rate of the matrix units, for one element type.
    Matrix,
    /// Time of a nearly empty launch.
    Dispatch,
    /// Throughput of the link from the host's pinned memory to the device, in timed work.
    Upload,
    /// Throughput of the link from the device to the host's pinned memory, in timed work.
    Download,
    /// Speed of the device over time, by pure arithmetic that depends on no memory or cache.
    Speed,
}

/// Size of a probe.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Whether the device is emulated on the host's processor: slow, and without its own caches.
    pub emulated: bool,
    /// Bytes that an execution of a probe accesses in memory, or moves over the link.
    pub working_set: u64,
    /// Factor of the usual duration, for a probe of speed.
    pub longer: u64,
}

impl Scale {
    /// Returns the usual size on such a device.
    pub fn usual(emulated: bool) -> Scale {
        Scale { emulated, working_set: 0, longer: 1 }
    }
}

//! Processor of this machine, for the target `cpu`.

use parallax_cpu::{Cpu, HostEnvironment};

use crate::memory;

/// Environment variable with the number of threads, for another number than that of the processors.
pub const THREADS: &str = "RAYON_NUM_THREADS";

/// Returns the number of threads in the variable.
pub fn threads() -> Option<usize> {
    let asked = std::env::var(THREADS).ok()?.trim().parse().ok()?;
    // 0 means all processors.
    (asked > 0).then_some(asked)
}

/// Opens the processor, which is always present.
pub fn open() -> Cpu {
    Cpu::open(HostEnvironment {
        name: name().unwrap_or_else(|| "host processor".to_owned()),
        api: "host",
        memory: memory::available(),
        features: Vec::new(),
        yield_now: || Box::pin(std::future::ready(())),
    })
}

/// Returns the processor's name, if the system reports it.
pub fn name() -> Option<String> {
    proc_line("/proc/cpuinfo", "model name")
}

fn proc_line(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

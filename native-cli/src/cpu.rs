//! The processor of this machine, for the target `cpu`.

use parallax_host::{Cpu, Place};

use crate::memory;

/// Says how many threads compute, where someone wants another number than the processor has.
pub const THREADS: &str = "RAYON_NUM_THREADS";

/// The number that it says.
pub fn threads() -> Option<usize> {
    let asked = std::env::var(THREADS).ok()?.trim().parse().ok()?;
    // None means all of them.
    (asked > 0).then_some(asked)
}

/// Always there.
pub fn open() -> Cpu {
    Cpu::open(Place {
        name: name().unwrap_or_else(|| "host processor".to_owned()),
        api: "host",
        memory: memory::available(),
        features: Vec::new(),
        yield_now: || Box::pin(std::future::ready(())),
    })
}

/// What the processor is called, where the system tells.
pub fn name() -> Option<String> {
    proc_line("/proc/cpuinfo", "model name")
}

fn proc_line(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

//! The builds of the worker program. A browser fetches one of them.

use std::num::NonZeroU32;

use parallax_protocol::most_threads;
use parallax_protocol::target::TargetConfig;

use crate::environment::isolated;

/// A build. Its file names contain the commit, so that no cache mixes versions.
#[derive(Clone, Copy)]
pub struct Program {
    /// Address of its JavaScript glue.
    pub glue: &'static str,
    /// Address of the WebAssembly module.
    pub wasm: &'static str,
    /// Number of threads.
    pub threads: u32,
}

macro_rules! on_one_thread {
    ($folder:literal) => {
        Program {
            glue: concat!("./", $folder, "/parallax_worker.js?", env!("PARALLAX_COMMIT")),
            wasm: concat!("./", $folder, "/parallax_worker_bg.wasm?", env!("PARALLAX_COMMIT")),
            threads: 1,
        }
    };
}

/// The build for one thread. It uses vector instructions, which every browser with WebGPU supports.
pub const ONE_THREAD: Program = on_one_thread!("worker");
/// The build for threads that share memory.
const THREADS: Program = on_one_thread!("threads");
/// Maximum number of threads, or the reason for a single one.
pub fn more_threads() -> Result<u32, &'static str> {
    match most_threads() {
        1 => Err("the browser says that there is one"),
        _ if !isolated() => Err("the page is not isolated, so its workers share no memory"),
        more => Ok(more),
    }
}

/// The build for threads, or `None` for one thread.
///
/// # Errors
/// The reason for a single thread.
pub fn for_threads(way: TargetConfig) -> Result<Option<Program>, &'static str> {
    let wanted = way.threads.map(NonZeroU32::get);
    if wanted == Some(1) {
        return Ok(None);
    }
    // Addresses can contain any number.
    let threads = |most| wanted.map_or(most, |wanted| wanted.min(4 * most));
    more_threads().map(|most| Some(Program { threads: threads(most), ..THREADS }))
}

//! The programs that measure, of which a browser gets one.

use std::num::NonZeroU32;

use parallax_lab::most_threads;
use parallax_lab::way::TargetConfig;

use crate::environment::isolated;

/// One of them. Its files have names of their own for each commit, so that no cache mixes them.
#[derive(Clone, Copy)]
pub struct Program {
    /// The script that goes with it.
    pub glue: &'static str,
    /// Itself.
    pub wasm: &'static str,
    /// How many threads it computes on.
    pub threads: u32,
}

macro_rules! on_one_thread {
    ($folder:literal) => {
        Program {
            glue: concat!("./", $folder, "/parallax_lab.js?", env!("PARALLAX_COMMIT")),
            wasm: concat!("./", $folder, "/parallax_lab_bg.wasm?", env!("PARALLAX_COMMIT")),
            threads: 1,
        }
    };
}

/// The program for one thread. It computes in vectors, as every browser with WebGPU does.
pub const ONE_THREAD: Program = on_one_thread!("lab");
/// The program for threads that share its memory.
const THREADS: Program = on_one_thread!("threads");
/// Whether more than one thread can be had, or why not.
pub fn more_threads() -> Result<u32, &'static str> {
    match most_threads() {
        1 => Err("the browser says that there is one"),
        _ if !isolated() => Err("the page is not isolated, so that its workers share no memory"),
        more => Ok(more),
    }
}

/// The one for threads, unless one thread is wanted; or why it cannot be had.
pub fn for_threads(way: TargetConfig) -> Result<Option<Program>, &'static str> {
    let wanted = way.threads.map(NonZeroU32::get);
    if wanted == Some(1) {
        return Ok(None);
    }
    // Addresses may ask for anything.
    let threads = |most| wanted.map_or(most, |wanted| wanted.min(4 * most));
    more_threads().map(|most| Some(Program { threads: threads(most), ..THREADS }))
}

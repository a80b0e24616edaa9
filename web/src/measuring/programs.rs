//! The programs that measure, of which a browser gets one.

use std::num::NonZeroU32;

use js_sys::{Uint8Array, WebAssembly};
use parallax_lab::most_threads;
use parallax_lab::way::Way;

use crate::environment::isolated;

/// One of them. Its files have names of their own for each commit, so that no cache mixes them.
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

/// Computes in vectors.
const VECTORS: Program = on_one_thread!("lab");
/// Computes in vectors, on threads that share its memory where there are more.
const THREADS: Program = on_one_thread!("threads");
/// Computes in no vectors, for browsers that refuse those.
const PLAIN: Program = on_one_thread!("plain");

/// The smallest program that computes in vectors.
const IN_VECTORS: [u8; 31] =
    [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

fn computes_in_vectors() -> bool {
    WebAssembly::validate(&Uint8Array::from(IN_VECTORS.as_slice())).unwrap_or(false)
}

/// Whether more than one thread can be had, or why not.
pub fn more_threads() -> Result<u32, &'static str> {
    match most_threads() {
        1 => Err("the browser says that there is one"),
        _ if !computes_in_vectors() => Err("the browser does not compute in vectors, as the program for more does"),
        _ if !isolated() => Err("the page is not isolated, so that its workers share no memory"),
        more => Ok(more),
    }
}

/// The one for threads, unless one thread is wanted; or why it cannot be had.
pub fn for_threads(way: Way) -> Result<Option<Program>, &'static str> {
    let wanted = way.threads.map(NonZeroU32::get);
    if wanted == Some(1) {
        return Ok(None);
    }
    // Addresses may ask for anything.
    let threads = |most| wanted.map_or(most, |wanted| wanted.min(4 * most));
    more_threads().map(|most| Some(Program { threads: threads(most), ..THREADS }))
}

/// The one for a single thread.
pub fn for_one() -> Program {
    if computes_in_vectors() { VECTORS } else { PLAIN }
}

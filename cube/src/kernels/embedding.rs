//! Embedding: a thread copies one vector of the row that its item's index names.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::definition::{Definition, Real, Width};

#[cube]
fn embedding<F: Scalar, N: Size>(
    index: &[u32],
    table: &[Vector<F, N>],
    out: &mut [Vector<F, N>],
    #[comptime] count: usize,
    #[comptime] pieces: usize,
) {
    if ABSOLUTE_POS < count {
        let row = index[ABSOLUTE_POS / pieces] as usize;
        out[ABSOLUTE_POS] = table[row * pieces + ABSOLUTE_POS % pieces];
    }
}

/// Body of the kernel.
pub fn define(k: &mut Definition<'_>) {
    let index = k.buffer::<u32>();
    let table = k.buffer::<Vector<Real, Width>>();
    let mut out = k.buffer::<Vector<Real, Width>>();
    embedding::expand::<Real, Width>(k.scope(), &index, &table, &mut out, k.size("COUNT"), k.size("PIECES"));
}

//! Copy: a vector of up to sixteen bytes per thread.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::definition::{Definition, Real, Width};

#[cube]
fn copy<F: Scalar, N: Size>(x: &[Vector<F, N>], out: &mut [Vector<F, N>], #[comptime] count: usize) {
    if ABSOLUTE_POS < count {
        out[ABSOLUTE_POS] = x[ABSOLUTE_POS];
    }
}

/// Body of the kernel.
pub fn define(k: &mut Definition<'_>) {
    if k.truth("WORDS") {
        k.real_is_words();
    }
    let x = k.buffer::<Vector<Real, Width>>();
    let mut out = k.buffer::<Vector<Real, Width>>();
    copy::expand::<Real, Width>(k.scope(), &x, &mut out, k.size("COUNT"));
}

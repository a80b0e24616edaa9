//! Softmax: a workgroup per row, in two passes. The first computes maximum and sum together: each thread rescales its sum when its
//! maximum rises. The second writes the result.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use super::rows::{largest_of, largest_of_all, sum_of, sum_of_all};
use crate::definition::{Definition, Real, Width};

/// Value below every number of a row, and finite, so that the difference of two such values is a number.
const LEAST: f32 = -3.4e38;

#[cube]
fn softmax<F: Float, N: Size>(
    x: &[Vector<F, N>],
    out: &mut [Vector<F, N>],
    #[comptime] rows: usize,
    #[comptime] pieces: usize,
    #[comptime] units: u32,
) {
    let mut kept = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let row = CUBE_POS;
    if row < rows {
        let first = row * pieces;
        let mut top = f32::new(LEAST);
        let mut sum = 0.0f32;
        let mut i = UNIT_POS as usize;
        while i < pieces {
            let piece = Vector::<f32, N>::cast_from(x[first + i]);
            let higher = max(top, largest_of::<N>(piece));
            sum = sum * (top - higher).exp() + sum_of::<N>((piece - Vector::new(higher)).exp());
            top = higher;
            i += units as usize;
        }
        let of_all = largest_of_all(top, &mut kept, units);
        let scale = 1.0f32 / sum_of_all(sum * (top - of_all).exp(), &mut kept, units);
        i = UNIT_POS as usize;
        while i < pieces {
            let piece = Vector::<f32, N>::cast_from(x[first + i]);
            out[first + i] = Vector::cast_from((piece - Vector::new(of_all)).exp() * Vector::new(scale));
            i += units as usize;
        }
    }
}

/// Body of the kernel.
pub fn define(k: &mut Definition<'_>) {
    let x = k.buffer::<Vector<Real, Width>>();
    let mut out = k.buffer::<Vector<Real, Width>>();
    let (rows, pieces, units) = (k.size("ROWS"), k.size("PIECES"), k.units());
    softmax::expand::<Real, Width>(k.scope(), &x, &mut out, rows, pieces, units);
}

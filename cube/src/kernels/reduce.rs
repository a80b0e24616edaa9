//! Reduction: as many workgroups as fit on the device write a partial result each, and one more workgroup combines them.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use super::rows::{largest_of, largest_of_all, maximum, sum_of, sum_of_all};
use crate::definition::{Definition, Real, Width};

#[cube]
fn reduce<F: Float, N: Size>(
    x: &[Vector<F, N>],
    out: &mut [f32],
    #[comptime] pieces: usize,
    #[comptime] parts: usize,
    #[comptime] units: u32,
    #[comptime] largest: bool,
) {
    let mut kept = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let part = CUBE_POS;
    if part < parts {
        let mut i = part * units as usize + UNIT_POS as usize;
        if comptime!(largest) {
            let mut top = f32::cast_from(x[0].extract(0usize));
            while i < pieces {
                top = maximum(top, largest_of::<N>(Vector::<f32, N>::cast_from(x[i])));
                i += parts * units as usize;
            }
            let of_all = largest_of_all(top, &mut kept, units);
            if UNIT_POS == 0 {
                out[part] = of_all;
            }
        } else {
            let mut sums = Vector::<f32, N>::new(0.0f32);
            while i < pieces {
                sums += Vector::<f32, N>::cast_from(x[i]);
                i += parts * units as usize;
            }
            let of_all = sum_of_all(sum_of::<N>(sums), &mut kept, units);
            if UNIT_POS == 0 {
                out[part] = of_all;
            }
        }
    }
}

/// Body of the kernel that writes partial results.
pub fn define_parts(k: &mut Definition<'_>) {
    let x = k.buffer::<Vector<Real, Width>>();
    let mut parts = k.buffer::<f32>();
    let (pieces, count, units, largest) = (k.size("PIECES"), k.size("PARTS"), k.units(), k.truth("LARGEST"));
    reduce::expand::<Real, Width>(k.scope(), &x, &mut parts, pieces, count, units, largest);
}

/// Body of the kernel that combines them.
pub fn define_last(k: &mut Definition<'_>) {
    let parts = k.buffer::<Vector<f32, Const<1>>>();
    let mut out = k.buffer::<f32>();
    let (count, units, largest) = (k.size("PARTS"), k.units(), k.truth("LARGEST"));
    reduce::expand::<f32, Const<1>>(k.scope(), &parts, &mut out, count, 1, units, largest);
}

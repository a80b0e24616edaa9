//! Reductions over the threads of a workgroup, shared by row kernels.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

/// Returns the sum over the threads of a workgroup, in all of them. Their number is a power of two. `kept` has one element per
/// thread.
#[cube]
pub fn sum_of_all(value: f32, kept: &mut [f32], #[comptime] units: u32) -> f32 {
    kept[UNIT_POS as usize] = value;
    sync_cube();
    #[unroll]
    for step in 1..comptime!(units.ilog2() + 1) {
        let half = comptime!(units >> step);
        if UNIT_POS < half {
            let other = kept[(UNIT_POS + half) as usize];
            kept[UNIT_POS as usize] += other;
        }
        sync_cube();
    }
    let all = kept[0];
    sync_cube();
    all
}

/// Returns the larger of two numbers, or NaN if either is. It tests the bits, because compilers may treat comparisons as free of
/// NaN.
#[cube]
pub fn maximum(a: f32, b: f32) -> f32 {
    let mut larger = max(a, b);
    if is_nan(a) || is_nan(b) {
        larger = a + b;
    }
    larger
}

/// Returns whether a number is NaN.
#[cube]
pub fn is_nan(x: f32) -> bool {
    u32::reinterpret(x) & 0x7FFF_FFFFu32 > 0x7F80_0000u32
}

/// Returns the maximum over the threads of a workgroup, or NaN if one is.
#[cube]
pub fn largest_of_all(value: f32, kept: &mut [f32], #[comptime] units: u32) -> f32 {
    kept[UNIT_POS as usize] = value;
    sync_cube();
    #[unroll]
    for step in 1..comptime!(units.ilog2() + 1) {
        let half = comptime!(units >> step);
        if UNIT_POS < half {
            let other = kept[(UNIT_POS + half) as usize];
            kept[UNIT_POS as usize] = maximum(kept[UNIT_POS as usize], other);
        }
        sync_cube();
    }
    let all = kept[0];
    sync_cube();
    all
}

/// Sum over a vector.
#[cube]
pub fn sum_of<N: Size>(piece: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for lane in 0..N::value() {
        sum += piece.extract(lane);
    }
    sum
}

/// Maximum of a vector, or NaN if one element is.
#[cube]
pub fn largest_of<N: Size>(piece: Vector<f32, N>) -> f32 {
    let mut largest = piece.extract(0usize);
    #[unroll]
    for lane in 1..N::value() {
        largest = maximum(largest, piece.extract(lane));
    }
    largest
}

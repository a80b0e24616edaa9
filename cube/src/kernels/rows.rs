//! What kernels share that go over rows: numbers of all threads of a workgroup made one.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

/// The sum over the threads of a workgroup, a power of two of them, which all of them are given. `kept` has a number for each.
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

/// The larger of two numbers, NaN where either is, as their bits show: compilers may take comparisons for ones without NaN.
#[cube]
pub fn maximum(a: f32, b: f32) -> f32 {
    let mut larger = max(a, b);
    if is_nan(a) || is_nan(b) {
        larger = a + b;
    }
    larger
}

/// Whether a number is NaN.
#[cube]
pub fn is_nan(x: f32) -> bool {
    u32::reinterpret(x) & 0x7FFF_FFFFu32 > 0x7F80_0000u32
}

/// The largest of them, NaN where one is.
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

/// The sum over a piece.
#[cube]
pub fn sum_of<N: Size>(piece: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for lane in 0..N::value() {
        sum += piece.extract(lane);
    }
    sum
}

/// The largest of a piece, NaN where one is.
#[cube]
pub fn largest_of<N: Size>(piece: Vector<f32, N>) -> f32 {
    let mut largest = piece.extract(0usize);
    #[unroll]
    for lane in 1..N::value() {
        largest = maximum(largest, piece.extract(lane));
    }
    largest
}

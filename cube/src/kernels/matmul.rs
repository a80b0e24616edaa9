//! GEMM: a workgroup of 16 by 16 threads stages tiles of A and B in workgroup memory. A thread keeps its accumulators in registers,
//! as vectors of neighbouring columns.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::definition::{Definition, Real, Width};

/// Extents of a shape and its tiles, constant in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tiles {
    m: u32,
    n: u32,
    k: u32,
    /// Columns of A and rows of B that are staged at a time.
    depth: u32,
    /// Rows and columns of the result of a thread.
    each: u32,
    /// Columns of a vector.
    width: u32,
}

/// Threads along each edge of a tile.
const EDGE: u32 = 16;

#[cube]
fn matmul<F: Float, N: Size>(a: &[F], b: &[Vector<F, N>], c: &mut [Vector<F, N>], #[comptime] t: Tiles) {
    let edge = comptime!(EDGE * t.each);
    // Vectors of a row of the tile, of the matrix, and of a thread's result.
    let (across, of_row, own) = comptime!((edge / t.width, t.n / t.width, t.each / t.width));
    let mut left = Shared::<[f32]>::new_slice(comptime!((t.depth * edge) as usize));
    let mut right = Shared::<[Vector<f32, N>]>::new_slice(comptime!((t.depth * edge / t.width) as usize));
    let tiles = comptime!(t.n.div_ceil(edge));
    let tile = CUBE_POS as u32;
    let (first_row, first_piece) = (tile / tiles * edge, tile % tiles * across);
    // Workgroups beyond the last tile have no work.
    if first_row < comptime!(t.m) {
        let (x, y) = (UNIT_POS % EDGE, UNIT_POS / EDGE);
        let mut sums = Array::<Vector<f32, N>>::new(comptime!((t.each * own) as usize));
        #[unroll]
        for i in 0..comptime!((t.each * own) as usize) {
            sums[i] = Vector::new(0.0f32);
        }
        let mut begin = 0u32;
        while begin < comptime!(t.k) {
            #[unroll]
            for i in 0..comptime!(t.depth * edge / (EDGE * EDGE)) {
                let at = UNIT_POS + i * comptime!(EDGE * EDGE);
                let (row, depth) = (at / comptime!(t.depth), at % comptime!(t.depth));
                let mut value = 0.0f32;
                if first_row + row < comptime!(t.m) && begin + depth < comptime!(t.k) {
                    value = f32::cast_from(a[((first_row + row) * comptime!(t.k) + begin + depth) as usize]);
                }
                left[(depth * edge + row) as usize] = value;
            }
            #[unroll]
            for i in 0..comptime!((t.depth * across).div_ceil(EDGE * EDGE)) {
                let at = UNIT_POS + i * comptime!(EDGE * EDGE);
                if at < comptime!(t.depth * across) {
                    let (depth, piece) = (at / across, at % across);
                    let mut value = Vector::<f32, N>::new(0.0f32);
                    if begin + depth < comptime!(t.k) && first_piece + piece < of_row {
                        value = Vector::cast_from(b[((begin + depth) * of_row + first_piece + piece) as usize]);
                    }
                    right[at as usize] = value;
                }
            }
            sync_cube();
            for depth in 0..comptime!(t.depth) {
                let mut pieces = Array::<Vector<f32, N>>::new(comptime!(own as usize));
                #[unroll]
                for j in 0..own {
                    pieces[j as usize] = right[(depth * across + j * EDGE + x) as usize];
                }
                #[unroll]
                for i in 0..comptime!(t.each) {
                    let value = Vector::<f32, N>::new(left[(depth * edge + y * comptime!(t.each) + i) as usize]);
                    #[unroll]
                    for j in 0..own {
                        sums[(i * own + j) as usize] += value * pieces[j as usize];
                    }
                }
            }
            sync_cube();
            begin += comptime!(t.depth);
        }
        #[unroll]
        for i in 0..comptime!(t.each) {
            let row = first_row + y * comptime!(t.each) + i;
            #[unroll]
            for j in 0..own {
                let piece = first_piece + j * EDGE + x;
                if row < comptime!(t.m) && piece < of_row {
                    c[(row * of_row + piece) as usize] = Vector::cast_from(sums[(i * own + j) as usize]);
                }
            }
        }
    }
}

/// Body of the kernel.
pub fn define(k: &mut Definition<'_>) {
    let a = k.buffer::<Real>();
    let b = k.buffer::<Vector<Real, Width>>();
    let mut c = k.buffer::<Vector<Real, Width>>();
    let tiles = Tiles {
        m: k.word("M"),
        n: k.word("N"),
        k: k.word("K"),
        depth: k.word("DEPTH"),
        each: k.word("EACH"),
        width: k.word("WIDTH"),
    };
    matmul::expand::<Real, Width>(k.scope(), &a, &b, &mut c, tiles);
}

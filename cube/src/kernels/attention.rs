//! Attention in one stage with an online softmax over tiles of keys and no score matrix. A workgroup of 16 by 16 threads computes
//! 64 queries. Scores lie in workgroup memory, results in registers. Queries, keys and values share one staging buffer in workgroup
//! memory.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use super::rows::maximum;
use crate::definition::{Definition, Real};

/// Extents of a shape, constant in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Extents {
    heads: u32,
    /// Number of query heads that share one head of keys and values.
    group: u32,
    /// Number of query heads of a batch item.
    item_heads: u32,
    s: u32,
    t: u32,
    d: u32,
    causal: bool,
    padded: bool,
    biased: bool,
}

/// Threads along each edge of a tile of scores.
const EDGE: u32 = 16;
/// Queries of a workgroup, and of a thread.
const ROWS: u32 = 64;
const OWN_ROWS: u32 = ROWS / EDGE;
/// Keys of a tile, and of a thread.
const KEYS: u32 = 32;
const OWN_KEYS: u32 = KEYS / EDGE;
/// Elements of queries and keys that are staged at a time.
const DEPTH: u32 = 16;
/// Number of elements of the staging buffer.
const STAGED: u32 = (ROWS + KEYS) * DEPTH;
/// Row stride of the scores in workgroup memory; one more than the keys, against bank conflicts.
const PITCH: u32 = KEYS + 1;
/// Threads that share a row in the softmax, and keys of each.
const LANES: u32 = EDGE * EDGE / ROWS;
const LANE_KEYS: u32 = KEYS / LANES;
/// Score of a hidden key: below every other score, and finite.
const UNSEEN: f32 = -3.0e38;
/// Lower limit of the finite values of a mask.
const LEAST_BIAS: f32 = -2.0e38;

/// Returns whether a query sees a key.
#[cube]
fn sees(row: u32, key: u32, length: u32, #[comptime] e: Extents) -> bool {
    let mut seen = key < length;
    if comptime!(e.causal) {
        // Aligned to the last key.
        seen = seen && key + comptime!(e.s) <= row + comptime!(e.t);
    }
    seen
}

#[cube]
fn attention<F: Float>(q: &[F], k: &[F], v: &[F], out: &mut [F], lengths: &[u32], mask: &[F], #[comptime] e: Extents) {
    let mut scores = Shared::<[f32]>::new_slice(comptime!((ROWS * PITCH) as usize));
    let mut stage = Shared::<[f32]>::new_slice(comptime!(STAGED as usize));
    let mut kept = Shared::<[f32]>::new_slice(comptime!((EDGE * EDGE) as usize));
    let mut factors = Shared::<[f32]>::new_slice(comptime!(ROWS as usize));
    // Columns of the result of a thread, and values that are staged at a time.
    let own = comptime!(e.d.div_ceil(EDGE));
    let values = comptime!((1u32 << (STAGED / e.d).ilog2()).min(KEYS));
    let blocks = comptime!(e.s.div_ceil(ROWS));
    let head = CUBE_POS as u32 / blocks;
    let first = CUBE_POS as u32 % blocks * ROWS;
    // Workgroups beyond the last head have no work.
    if head < comptime!(e.heads) {
        let (x, y) = (UNIT_POS % EDGE, UNIT_POS / EDGE);
        let queries = head * comptime!(e.s * e.d);
        let keys = head / comptime!(e.group) * comptime!(e.t * e.d);
        let mut length = comptime!(e.t).runtime();
        if comptime!(e.padded) {
            length = lengths[(head / comptime!(e.item_heads)) as usize];
        }
        // End of the keys that any query here sees.
        let mut end = length;
        if comptime!(e.causal) {
            let last = first + comptime!(ROWS + e.t);
            end = if last < comptime!(e.s) { 0u32.runtime() } else { min(end, last - comptime!(e.s)) };
        }
        let mut sums = Array::<f32>::new(comptime!((OWN_ROWS * own) as usize));
        #[unroll]
        for i in 0..comptime!((OWN_ROWS * own) as usize) {
            sums[i] = 0.0f32;
        }
        // State of the row that this thread shares in the softmax.
        let lane = UNIT_POS % LANES;
        let mine = UNIT_POS / LANES;
        let mut top = f32::new(UNSEEN);
        let mut total = 0.0f32;

        let mut begin = 0u32;
        while begin < end {
            // Scores of a tile.
            let mut dots = Array::<f32>::new(comptime!((OWN_ROWS * OWN_KEYS) as usize));
            #[unroll]
            for i in 0..comptime!((OWN_ROWS * OWN_KEYS) as usize) {
                dots[i] = 0.0f32;
            }
            let mut deep = 0u32;
            while deep < comptime!(e.d) {
                #[unroll]
                for i in 0..comptime!(STAGED / (EDGE * EDGE)) {
                    let at = UNIT_POS + i * comptime!(EDGE * EDGE);
                    let (row, column) = (at / DEPTH, deep + at % DEPTH);
                    let mut value = 0.0f32;
                    if column < comptime!(e.d) {
                        if row < ROWS {
                            if first + row < comptime!(e.s) {
                                value = f32::cast_from(q[(queries + (first + row) * comptime!(e.d) + column) as usize]);
                            }
                        } else if begin + row - ROWS < comptime!(e.t) {
                            value = f32::cast_from(k[(keys + (begin + row - ROWS) * comptime!(e.d) + column) as usize]);
                        }
                    }
                    // Element by element, so that neighbouring threads read neighbouring rows.
                    stage[(at % DEPTH * comptime!(ROWS + KEYS) + row) as usize] = value;
                }
                sync_cube();
                for column in 0..DEPTH {
                    let base = column * comptime!(ROWS + KEYS);
                    #[unroll]
                    for i in 0..OWN_ROWS {
                        let query = stage[(base + y * OWN_ROWS + i) as usize];
                        #[unroll]
                        for j in 0..OWN_KEYS {
                            dots[(i * OWN_KEYS + j) as usize] += query * stage[(base + ROWS + x + j * EDGE) as usize];
                        }
                    }
                }
                sync_cube();
                deep += DEPTH;
            }
            #[unroll]
            for i in 0..OWN_ROWS {
                let row = y * OWN_ROWS + i;
                #[unroll]
                for j in 0..OWN_KEYS {
                    let key = x + j * EDGE;
                    let mut score = f32::new(UNSEEN);
                    if first + row < comptime!(e.s) && sees(first + row, begin + key, length, e) {
                        score = dots[(i * OWN_KEYS + j) as usize] * comptime!(1.0f32 / (e.d as f32).sqrt());
                        if comptime!(e.biased) {
                            let bias = f32::cast_from(mask[((first + row) * comptime!(e.t) + begin + key) as usize]);
                            // An infinity hides a key. Finite values are clamped, so that scores stay above those of hidden keys.
                            if u32::reinterpret(bias) == 0xFF80_0000u32 {
                                score = f32::new(UNSEEN);
                            } else {
                                score += maximum(bias, f32::new(LEAST_BIAS));
                            }
                        }
                    }
                    scores[(row * PITCH + key) as usize] = score;
                }
            }
            sync_cube();

            // Weights of the scores.
            let own_scores = mine * PITCH + lane * LANE_KEYS;
            let mut highest = f32::new(UNSEEN);
            #[unroll]
            for i in 0..LANE_KEYS {
                highest = max(highest, scores[(own_scores + i) as usize]);
            }
            kept[UNIT_POS as usize] = highest;
            sync_cube();
            highest = top;
            #[unroll]
            for i in 0..LANES {
                highest = max(highest, kept[(mine * LANES + i) as usize]);
            }
            let factor = (top - highest).exp();
            let mut part = 0.0f32;
            #[unroll]
            for i in 0..LANE_KEYS {
                let score = scores[(own_scores + i) as usize];
                // Comparison for equality, so that NaN reaches the sums. Dialects differ in whether NaN differs from a number.
                let mut weight = (score - highest).exp();
                if score == f32::new(UNSEEN) {
                    weight = 0.0f32;
                }
                scores[(own_scores + i) as usize] = weight;
                part += weight;
            }
            top = highest;
            total = total * factor + part;
            factors[mine as usize] = factor;
            sync_cube();

            // Weighted values.
            #[unroll]
            for i in 0..OWN_ROWS {
                let factor = factors[(y * OWN_ROWS + i) as usize];
                #[unroll]
                for j in 0..own {
                    sums[(i * own + j) as usize] *= factor;
                }
            }
            let mut key = 0u32;
            while key < KEYS {
                let mut at = UNIT_POS;
                while at < comptime!(values * e.d) {
                    let row = begin + key + at / comptime!(e.d);
                    let mut value = 0.0f32;
                    // Memory beyond the length may hold any value, and a weight of zero does not make NaN a number.
                    if row < length {
                        value = f32::cast_from(v[(keys + row * comptime!(e.d) + at % comptime!(e.d)) as usize]);
                    }
                    stage[at as usize] = value;
                    at += comptime!(EDGE * EDGE);
                }
                sync_cube();
                for i in 0..values {
                    #[unroll]
                    for j in 0..own {
                        // The last columns of some threads are beyond the row. Their sums are never read.
                        let value = stage[min(i * comptime!(e.d) + x + j * EDGE, comptime!(STAGED - 1)) as usize];
                        #[unroll]
                        for r in 0..OWN_ROWS {
                            sums[(r * own + j) as usize] +=
                                scores[((y * OWN_ROWS + r) * PITCH + key + i) as usize] * value;
                        }
                    }
                }
                sync_cube();
                key += values;
            }
            begin += KEYS;
        }

        kept[UNIT_POS as usize] = total;
        sync_cube();
        #[unroll]
        for r in 0..OWN_ROWS {
            let row = y * OWN_ROWS + r;
            let mut all = 0.0f32;
            #[unroll]
            for i in 0..LANES {
                all += kept[(row * LANES + i) as usize];
            }
            let mut scale = 1.0f32 / all;
            if all == 0.0f32 {
                scale = 0.0f32;
            }
            #[unroll]
            for j in 0..own {
                let column = x + j * EDGE;
                if first + row < comptime!(e.s) && column < comptime!(e.d) {
                    out[(queries + (first + row) * comptime!(e.d) + column) as usize] =
                        F::cast_from(sums[(r * own + j) as usize] * scale);
                }
            }
        }
    }
}

/// Body of the kernel.
pub fn define(k: &mut Definition<'_>) {
    let extents = Extents {
        heads: k.word("HEADS"),
        group: k.word("GROUP"),
        item_heads: k.word("ITEM_HEADS"),
        s: k.word("S"),
        t: k.word("T"),
        d: k.word("D"),
        causal: k.truth("CAUSAL"),
        padded: k.truth("OWN_LENGTHS"),
        biased: k.truth("BIASED"),
    };
    let [q, keys, values] = [(); 3].map(|()| k.buffer::<Real>());
    let mut out = k.buffer::<Real>();
    // A shape without lengths or mask has no such buffers, and its kernel does not read them. The queries stand in.
    let lengths = if extents.padded { k.buffer::<u32>() } else { q.expand.into() };
    let mask = if extents.biased { k.buffer::<Real>() } else { q.expand.into() };
    attention::expand::<Real>(k.scope(), &q, &keys, &values, &mut out, &lengths, &mask, extents);
}

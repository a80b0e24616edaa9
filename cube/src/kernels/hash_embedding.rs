//! Hash embedding of sorted rows. Each output element has one thread. It finds its group's rows by search, sums those of its column
//! in a register, and writes once.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::definition::Definition;

/// MurmurHash3's 32-bit finaliser.
#[cube]
fn hash(id: u32) -> u32 {
    let a = (id ^ (id >> 16u32)) * 0x85EB_CA6Bu32;
    let b = (a ^ (a >> 13u32)) * 0xC2B2_AE35u32;
    b ^ (b >> 16u32)
}

#[cube]
fn hash_embedding(
    id: &[u32],
    group: &[u32],
    weight: &[f32],
    out: &mut [f32],
    #[comptime] rows: u32,
    #[comptime] count: usize,
    #[comptime] dim: u32,
) {
    if ABSOLUTE_POS < count {
        let mine = ABSOLUTE_POS as u32 / dim;
        let column = ABSOLUTE_POS as u32 % dim;
        // The first row whose group is not before this one.
        let mut low = 0u32;
        let mut high = rows.runtime();
        while low < high {
            let middle = low + (high - low) / 2u32;
            if group[middle as usize] < mine {
                low = middle + 1u32;
            } else {
                high = middle;
            }
        }
        let mut sum = 0.0f32;
        let mut row = low;
        let mut ours = true;
        while ours {
            ours = false;
            if row < rows && group[row as usize] == mine {
                ours = true;
                let h = hash(id[row as usize]);
                if (h & 0x7FFF_FFFFu32) % dim == column {
                    let sign = if h >> 31u32 == 1u32 { -1.0f32 } else { 1.0f32 };
                    sum += sign * weight[row as usize];
                }
                row += 1u32;
            }
        }
        out[ABSOLUTE_POS] = sum;
    }
}

/// Body of the kernel.
pub fn define(k: &mut Definition<'_>) {
    let [id, group] = [(); 2].map(|()| k.buffer::<u32>());
    let weight = k.buffer::<f32>();
    let mut out = k.buffer::<f32>();
    let (rows, count, dim) = (k.word("ROWS"), k.size("COUNT"), k.word("DIM"));
    hash_embedding::expand(k.scope(), &id, &group, &weight, &mut out, rows, count, dim);
}

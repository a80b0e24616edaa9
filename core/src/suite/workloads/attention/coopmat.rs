//! The variant on matrix units through WGSL's cooperative matrices.

use super::masks::{Looks, looking};
use super::{cost_of_one_stage, stage};
use crate::suite::Access::{Read, Write};
use crate::suite::{Caps, Problem, Product, Program, spread};

/// Query rows of a workgroup: sixteen for each of its four subgroups.
const ROWS: u64 = 64;
const THREADS: u64 = 128;
/// Elements that pad a staged row of 16-bit floats, or a row of scores or weights.
const PADDING: u64 = 8;
/// Largest head_dim: queries and sums of values lie in registers.
const MAX_DIM: u64 = 128;
/// Whether there is a square of 16 columns of this number, and an eight of a tile for a thread to fetch.
const SQUARES: [&str; 8] = ["", "SQUARE1", "SQUARE2", "SQUARE3", "SQUARE4", "SQUARE5", "SQUARE6", "SQUARE7"];
const FETCHES: [&str; 4] = ["", "FETCH1", "FETCH2", "FETCH3"];

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Product::coopmat_available(p.dtype, caps)?;
    match p["d"] {
        d if d <= MAX_DIM => Ok(()),
        d => Err(format!("flash_coopmat keeps a row of the output in registers: head_dim {d} > {MAX_DIM}")),
    }
}

/// Keys of a tile, and head_dim padded to whole squares.
fn tile(d: u64) -> (u64, u64) {
    (if d <= 64 { 64 } else { 32 }, d.next_multiple_of(16))
}

/// Bytes of workgroup memory: a tile of keys and one of values, scores, weights, and four words for all.
fn shared(keys: u64, width: u64) -> u64 {
    2 * keys * (width + PADDING) * 2 + ROWS * (keys + PADDING) * (4 + 2) + 16
}

pub fn program(p: &Problem, _caps: &Caps) -> Program {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    let (keys, width) = tile(d);
    let packed = d.is_multiple_of(8);
    let whole = width == d && s.is_multiple_of(ROWS) && t.is_multiple_of(keys);
    let squares = (1..SQUARES.len()).map(|i| (SQUARES[i], width > 16 * i as u64));
    let fetches = (1..FETCHES.len()).map(|i| (FETCHES[i], keys * width / 8 > THREADS * i as u64));
    let stage = stage(p, "attention/flash_coopmat", "attention_flash_coopmat")
        .consts(&[("ROWS", ROWS), ("KEYS", keys), ("WIDTH", width)].map(|(name, value)| (name, value as u32)))
        .consts(&[("PACKED", packed), ("WHOLE", whole)])
        .consts(&squares.chain(fetches).collect::<Vec<_>>())
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["b"] * p["h"] * s.div_ceil(ROWS)))
        .shared(shared(keys, width) as u32)
        .costing(cost_of_one_stage(p));
    looking(p, Looks::AtBoth, stage).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_head_dim_has_matrices_and_fits() {
        for d in 1..=MAX_DIM {
            let (keys, width) = tile(d);
            assert!(width >= d && width <= 16 * SQUARES.len() as u64, "{d}");
            assert!(keys * width / 8 <= THREADS * FETCHES.len() as u64, "{d}");
            // Queries are staged where keys and values will be.
            assert!(2 * keys >= ROWS && shared(keys, width) <= 48 << 10, "{d}");
        }
    }
}

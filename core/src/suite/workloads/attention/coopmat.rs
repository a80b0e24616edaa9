//! The variant on matrix units through WGSL's cooperative matrices.

use super::masks::{Looks, looking};
use super::{cost_of_one_stage, stage};
use crate::suite::Access::{Read, Write};
use crate::suite::{Caps, Problem, Product, Program, spread};

/// Keys of a tile.
const KEYS: u64 = 32;
/// Elements that pad a staged row of 16-bit floats.
const PADDING: u64 = 8;
/// Largest head_dim: sums of values lie in workgroup memory, of which there are 48 KiB.
const MAX_DIM: u64 = 128;

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Product::coopmat_available(p.dtype, caps)?;
    match p["d"] {
        d if d <= MAX_DIM => Ok(()),
        d => Err(format!("flash_coopmat keeps its sums in workgroup memory: head_dim {d} > {MAX_DIM}")),
    }
}

/// Query rows of a workgroup, and head_dim padded so that its four subgroups have as many squares each.
fn tile(d: u64) -> (u64, u64) {
    if d <= 64 { (64, d.next_multiple_of(16)) } else { (32, d.next_multiple_of(32)) }
}

pub fn program(p: &Problem, _caps: &Caps) -> Program {
    let (rows, width) = tile(p["d"]);
    let of_f16 = (rows + KEYS) * (width + PADDING) + rows * (KEYS + PADDING);
    let of_f32 = rows * (KEYS + width + 1);
    let stage = stage(p, "attention/flash_coopmat", "attention_flash_coopmat")
        .consts(&[("ROWS", rows), ("KEYS", KEYS), ("WIDTH", width)].map(|(name, value)| (name, value as u32)))
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write)])
        .threads([128, 1, 1])
        .grid(spread(p["b"] * p["h"] * p["s"].div_ceil(rows)))
        .shared((2 * of_f16 + 4 * of_f32) as u32)
        .costing(cost_of_one_stage(p));
    looking(p, Looks::AtBoth, stage).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_dealt_out_evenly_and_fit() {
        for d in 1..=MAX_DIM {
            let (rows, width) = tile(d);
            let bands = rows / 16;
            assert!(width >= d && width.is_multiple_of(16), "{d}");
            assert!((bands * (KEYS / 16)).is_multiple_of(4) && (bands * (width / 16)).is_multiple_of(4), "{d}");
            let bytes =
                2 * ((rows + KEYS) * (width + PADDING) + rows * (KEYS + PADDING)) + 4 * rows * (KEYS + width + 1);
            assert!(bytes <= 48 << 10, "{d}: {bytes}");
        }
    }
}

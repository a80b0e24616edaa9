//! Variant on matrix units through WGSL's cooperative matrices.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Gemm, Problem, Program, spread};
use parallax_schema::device::Caps;

use super::masks::{Looks, looking, without_starts};
use super::scores::without_changes;
use super::{cost_of_one_stage, stage};

/// Query rows of a workgroup: 32 for each pair of its eight subgroups.
const ROWS: u64 = 128;
const THREADS: u64 = 256;
/// Keys of a tile: one matrix of them for each subgroup of a pair.
const KEYS: u64 = 32;
/// Elements of padding of a staged 16-bit row, or of a row of scores or weights.
pub(super) const PADDING: u64 = 8;
/// Columns of queries that are staged at a time.
const QUERY_COLUMNS: u64 = 32;
/// Largest head_dim: queries and sums of values are in registers.
pub(super) const MAX_DIM: u64 = 128;
/// Names of the constants that enable a 16-column matrix of the given number. `COLUMNS` enables an accumulator in either half of
/// the columns, `FETCHES` an 8-element vector of a tile per thread.
pub(super) const SQUARES: [&str; 8] = ["", "D_TILE1", "D_TILE2", "D_TILE3", "D_TILE4", "D_TILE5", "D_TILE6", "D_TILE7"];
pub(super) const COLUMNS: [&str; 4] = ["", "COLUMN1", "COLUMN2", "COLUMN3"];
const FETCHES: [&str; 2] = ["", "FETCH1"];

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::coopmat_available(p.dtype, caps)?;
    without_starts(p, "flash_coopmat")?;
    without_changes(p, "flash_coopmat")?;
    match p["d"] {
        d if d <= MAX_DIM => Ok(()),
        d => Err(format!("flash_coopmat keeps a row of the output in registers: head_dim {d} > {MAX_DIM}")),
    }
}

/// Returns head_dim padded to whole matrices in either half.
pub(super) fn width(d: u64) -> u64 {
    d.next_multiple_of(32)
}

/// Returns the flag of each numbered part: whether `all` exceeds `each` times its number.
pub(super) fn there<const N: usize>(
    names: [&'static str; N],
    all: u64,
    each: u64,
) -> impl Iterator<Item = (&'static str, bool)> {
    (1..N).map(move |i| (names[i], all > each * i as u64))
}

/// Flags of the matrices of a head_dim, and of the accumulators in either half of it.
pub(super) fn squares_and_columns(d: u64) -> impl Iterator<Item = (&'static str, bool)> {
    there(SQUARES, d, 16).chain(there(COLUMNS, width(d), 32))
}

/// Bytes of workgroup memory. It holds a tile of keys and one of values, or columns of queries; scores, weights, and four shared
/// words.
fn shared(width: u64) -> u64 {
    let staged = (2 * KEYS * (width + PADDING)).max(ROWS * (QUERY_COLUMNS + PADDING));
    staged * 2 + ROWS * (KEYS + PADDING) * (4 + 2) + 16
}

pub fn program(p: &Problem, _caps: &Caps) -> Program {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    let width = width(d);
    let packed = d.is_multiple_of(8);
    let whole = width == d && s.is_multiple_of(ROWS) && t.is_multiple_of(KEYS);
    let fetches = there(FETCHES, KEYS * width / 8, THREADS);
    let stage = stage(p, "attention/flash_coopmat", "attention_flash_coopmat")
        .consts(
            &[("ROWS", ROWS), ("KEYS", KEYS), ("WIDTH", width), ("THREADS", THREADS)]
                .map(|(name, value)| (name, value as u32)),
        )
        .consts(&[("PACKED", packed), ("WHOLE", whole)])
        .consts(&squares_and_columns(d).chain(fetches).collect::<Vec<_>>())
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["b"] * p["h"] * s.div_ceil(ROWS)))
        .shared(shared(width) as u32)
        .cost(cost_of_one_stage(p));
    looking(p, Looks::Both, stage).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_head_dim_has_matrices_and_fits() {
        for d in 1..=MAX_DIM {
            let width = width(d);
            assert!(width >= d && width <= 16 * SQUARES.len() as u64 && width <= 32 * COLUMNS.len() as u64, "{d}");
            assert!(KEYS * width / 8 <= THREADS * FETCHES.len() as u64, "{d}");
            assert!(shared(width) <= 48 << 10, "{d}");
        }
    }
}

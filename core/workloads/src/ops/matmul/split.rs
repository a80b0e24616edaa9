//! Variant of f32 by three bf16 pieces of each element (`split_wgmma`), on tensor cores of compute capability 9.0.
//!
//! An element is `x0 + x1 + x2`, each the rest rounded to bf16: 24 bits, all of f32, with its range of exponents. C is the sum of
//! `a0·b2`, `a2·b0`, `a1·b1`, `a0·b1`, `a1·b0` and `a0·b0`, in this order over the whole depth. The other three products are below
//! 2⁻²⁶ of `|a·b|`. Products of bf16 are exact in f32. Tensor cores truncate when they add: sums of 512 terms are added with
//! rounding.
//!
//! Infinite elements make NaN: a product with a zero piece has no value. Terms below the smallest normal number may be lost.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, Elem, Problem, Program, RowProducts, Stage, spread};
use parallax_schema::case::{Cost, DType, Storage};
use parallax_schema::device::Caps;

use super::cost;

/// Buffers of pieces: A by rows, B by columns. Words have two neighbours along the depth.
const PIECES: [&str; 2] = ["a_pieces", "b_pieces"];
/// Pieces of an element, and products of pieces that count.
const EACH: u64 = 3;
const PRODUCTS: u64 = 6;
/// Elements of a step, to which the depth of pieces is padded.
const STEP: u64 = 64;
/// Steps whose sums are added with rounding.
const TOGETHER: u32 = 8;
/// Threads of a block that makes pieces.
const THREADS: u64 = 256;

fn padded(p: &Problem) -> u64 {
    p["k"].next_multiple_of(STEP)
}

/// Words of the pieces of a row.
fn words(p: &Problem) -> u64 {
    EACH * padded(p) / 2
}

/// Scratch in the cases that it can compute.
pub(super) fn scratch(p: &Problem) -> Vec<BufferSpec> {
    match p.dtype {
        DType::F32 => {
            let rows = [p["m"], p["n"]];
            PIECES
                .iter()
                .zip(rows)
                .map(|(name, rows)| BufferSpec::scratch(name, Elem::U32, &[rows, words(p)]))
                .collect()
        }
        _ => vec![],
    }
}

/// Products of all rows of pieces. Registers have room for a second set of 128 columns.
fn row_products(p: &Problem) -> RowProducts {
    RowProducts::new([p["m"], p["n"]], words(p), Storage::U32).steps(PRODUCTS * padded(p) / STEP).widest(128)
}

/// Checks that a device can compute a problem.
///
/// # Errors
/// Reason why it cannot.
pub(super) fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    match p.dtype {
        DType::F32 => row_products(p).stores_available(Storage::F32, caps),
        _ => Err("split_wgmma has pieces of f32, other types are multiplied by wgmma".to_owned()),
    }
}

/// Stage that makes the pieces of a matrix with `rows` rows of them.
fn pieces(p: &Problem, entry: &'static str, [from, to]: [&'static str; 2], rows: u64, groups: u64) -> Stage {
    let consts = [("ROWS", rows), ("DEPTH", p["k"]), ("PADDED", padded(p))];
    Stage::kernel(entry, "matmul/pieces", entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([THREADS as u32, 1, 1])
        .grid(spread(groups))
        .args([("matrix", from, Read), ("pieces", to, Write)])
        .cost(Cost::new(0, 4 * rows * p["k"], 4 * rows * words(p)))
}

pub(super) fn split_wgmma(p: &Problem, caps: &Caps) -> Program {
    let (m, n) = (p["m"], p["n"]);
    let [a_pieces, b_pieces] = PIECES;
    // A thread has four elements of a row, a block of the other kernel 64 × 32.
    let of_a = pieces(p, "matmul_pieces", ["a", a_pieces], m, (m * padded(p) / 4).div_ceil(THREADS));
    let of_b = pieces(p, "matmul_pieces_across", ["b", b_pieces], n, n.div_ceil(32) * (padded(p) / 64));
    let products = row_products(p);
    let [a, b] = products.operands(caps);
    let product = products
        .stage(caps, "matmul/split_wgmma", "matmul_split_wgmma")
        .consts(&[("TOGETHER", TOGETHER)])
        .args([
            Arg::from(("a", a_pieces, Read)).mapped(a),
            Arg::from(("b", b_pieces, Read)).mapped(b),
            Arg::from(("c", Write)).mapped(products.results(Storage::F32)),
        ])
        .cost(Cost::new(cost(p).flops.0, 4 * (m + n) * words(p), 4 * m * n));
    Program { stages: vec![of_a, of_b, product] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::hopper;

    #[test]
    fn it_is_of_f32_and_bound_by_no_unit_of_f32() {
        let case = |case: &str| parse_case(&format!("matmul/fwd/{case}/split_wgmma")).expect("valid");
        let f32 = case("m65,n68,k33/f32");
        assert_eq!(available(&f32.problem, &hopper()), Ok(()));
        assert_eq!((words(&f32.problem), f32.least_cost().flops.0), (96, 0));
        assert_eq!(split_wgmma(&f32.problem, &hopper()).stages.len(), 3);
        assert!(available(&case("m65,n68,k33/f16").problem, &hopper()).is_err_and(|why| why.contains("pieces of f32")));
        assert!(available(&case("m65,n67,k33/f32").problem, &hopper()).is_err_and(|why| why.contains("16 bytes")));
    }
}

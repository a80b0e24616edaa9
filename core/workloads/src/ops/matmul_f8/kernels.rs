//! Variants of the workload as stages.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{
    Arg, CudaLaunch, Elem, Gemm, Layout, LibraryEpilogue, Problem, Program, RowProducts, Stage, Tunable, spread,
};
use parallax_schema::case::{Allowed, Storage};
use parallax_schema::device::Caps;

use super::codes::gradient;
use super::{PACKED, Scales, parts};
use crate::result_tiles::{LARGE_FROM, WIDE_FROM, enough, tiles};

/// Adds the extents and the kind of scales as constants.
fn described(p: &Problem, stage: Stage) -> Stage {
    let scales = Scales::of(&p.shape);
    let extents = [("M", p["m"]), ("N", p["n"]), ("WORDS", p["k"] / PACKED), ("PARTS", parts(&p.shape))];
    stage
        .consts(&extents.map(|(name, value)| (name, value as u32)))
        .consts(&[("BY_ROW", scales == Scales::Row), ("BY_BLOCK", scales == Scales::Block)])
        .consts(&[("A_E5M2", gradient(&p.shape))])
}

/// Stage with constants.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    described(p, Stage::kernel(entry, text, entry))
}

/// Program of one stage.
fn program(p: &Problem, stage: Stage) -> Program {
    let args = [("a", Read), ("b", Read), ("a_scale", Read), ("b_scale", Read), ("c", Write)];
    stage.args(args).cost(p.cost()).into()
}

pub(super) fn naive(p: &Problem, _caps: &Caps) -> Program {
    program(p, stage(p, "matmul_f8/naive", "matmul_f8_naive").threads([16, 16, 1]).grid(spread(tiles(p, 16, 16))))
}

pub(super) fn tiled(p: &Problem, caps: &Caps) -> Program {
    const ACROSS: u32 = 16;
    // Each thread stages four rows of four codes at a time: both tiles are 2048 codes.
    const CODES: u32 = 2048;
    let large = enough(tiles(p, 128, 128), caps, p.tuned(caps, "tiled", &LARGE_FROM));
    let reg_tiles: u32 = if large { 2 } else { 1 };
    let tile = 4 * ACROSS * reg_tiles;
    let stage = stage(p, "matmul_f8/tiled", "matmul_f8_tiled")
        .consts(&[("BLOCK_MN", tile), ("BLOCK_K", CODES / tile), ("REG_TILES", reg_tiles)])
        .consts(&[("VEC4_STORES", p["n"].is_multiple_of(4))])
        .threads([ACROSS * ACROSS, 1, 1])
        .grid(spread(tiles(p, u64::from(tile), u64::from(tile))))
        .shared(2 * CODES * 4);
    program(p, stage)
}

pub(super) fn mma_available(_p: &Problem, caps: &Caps) -> Result<(), String> {
    match caps.compute_capability {
        Some((major, _)) if major >= 8 => Ok(()),
        found => Err(format!("mma needs compute capability 8.0, not {found:?}")),
    }
}

pub(super) fn mma(p: &Problem, caps: &Caps) -> Program {
    const ROWS: u32 = 128;
    // Bytes of a staged row, and of its padding. Steps in shared memory: one in use, two in flight.
    const DEPTH: u32 = 64;
    const PADDING: u32 = 16;
    const STAGES: u32 = 3;
    // By block a warp has two sums for each result, and half as many columns.
    let by_block = Scales::of(&p.shape) == Scales::Block;
    let wide = !by_block && enough(tiles(p, u64::from(ROWS), 256), caps, p.tuned(caps, "mma", &WIDE_FROM));
    let columns = if wide { 256 } else { 128 };
    let of_warp = if by_block { 32 } else { 64 };
    let threads = ROWS / 64 * (columns / of_warp) * 32;
    let stage = stage(p, "matmul_f8/mma", "matmul_f8_mma")
        .consts(&[("BLOCK_M", ROWS), ("BLOCK_N", columns), ("BLOCK_K", DEPTH), ("PADDING", PADDING)])
        .consts(&[("STAGES", STAGES), ("THREADS", threads), ("WARP_N", of_warp)])
        .threads([threads, 1, 1])
        .grid(spread(tiles(p, u64::from(ROWS), u64::from(columns))))
        .cuda(CudaLaunch {
            dynamic_shared_bytes: STAGES * (ROWS + columns) * (DEPTH + PADDING),
            ..CudaLaunch::default()
        });
    program(p, stage)
}

/// Tunables of `wgmma`. A tile of 256 columns has registers for half of its sums, beside their totals.
pub(super) const WIDEST: Tunable = Tunable {
    name: "WIDEST",
    about: "columns of the widest tiles: wide ones load fewer bytes for each product, narrow ones leave less of the last wave",
    allowed: Allowed::OneOf(&[64, 128, 192, 256]),
    default: 192,
};

/// Products of rows of words: the copy engine does not distinguish bytes from words.
fn row_products(p: &Problem) -> RowProducts {
    RowProducts::new([p["m"], p["n"]], p["k"] / PACKED, Storage::U32)
}

pub(super) fn wgmma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    row_products(p).stores_available(Elem::Real.storage(p.dtype), caps)
}

pub(super) fn wgmma(p: &Problem, caps: &Caps) -> Program {
    let products = row_products(p).widest(u64::from(p.tuned(caps, "wgmma", &WIDEST)));
    let [a, b] = products.operands(caps);
    described(p, products.stage(caps, "matmul_f8/wgmma", "matmul_f8_wgmma"))
        .args([
            Arg::from(("a", Read)).mapped(a),
            Arg::from(("b", Read)).mapped(b),
            ("a_scale", Read).into(),
            ("b_scale", Read).into(),
            Arg::from(("c", Write)).mapped(products.results(Elem::Real.storage(p.dtype))),
        ])
        .cost(p.cost())
        .into()
}

pub(super) fn vendor_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    match (Scales::of(&p.shape), caps.compute_capability) {
        (Scales::Row | Scales::Block, _) => Err("cuBLASLt is called with one scale for each tensor".to_owned()),
        (_, found) if found < Some((8, 9)) => Err(format!("8-bit floats need compute capability 8.9, not {found:?}")),
        _ if p["n"].is_multiple_of(16) && p["k"].is_multiple_of(16) => Ok(()),
        _ => Err("cuBLASLt multiplies codes of columns and depths that are multiples of 16".to_owned()),
    }
}

pub(super) fn vendor(p: &Problem, _caps: &Caps) -> Program {
    let gemm = Gemm::new(p["m"], p["n"], p["k"]).layout(Layout::Nt);
    gemm.library("cublaslt_matmul", LibraryEpilogue::Scaled { e5m2: gradient(&p.shape) })
        .args([("a", Read), ("b", Read), ("c", Write), ("a_scale", Read), ("b_scale", Read)])
        .cost(p.cost())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::Value;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("matmul_f8/fwd/{shape}/bf16/naive")).expect("valid").problem
    }

    /// Value of a constant of a program's only kernel.
    fn constant(program: &Program, wanted: &str) -> Option<Value> {
        program.kernels().find_map(|kernel| kernel.consts.iter().find(|(name, _)| *name == wanted)).map(|(_, x)| *x)
    }

    #[test]
    fn matrix_units_are_used_only_where_they_are() {
        let p = problem("m1,n1,k4");
        assert_eq!(mma_available(&p, &hopper()), Ok(()));
        assert!(mma_available(&p, &caps()).is_err_and(|why| why.contains("8.0")));
        assert!(wgmma_available(&p, &hopper()).is_err_and(|why| why.contains("a row has 4")));
        assert!(wgmma_available(&problem("m1,n4,k16"), &hopper()).is_err_and(|why| why.contains("a row has 8")));
        assert_eq!(wgmma_available(&problem("m1,n8,k16"), &hopper()), Ok(()));
        assert_eq!(vendor_available(&problem("m1,n16,k16"), &hopper()), Ok(()));
        assert!(vendor_available(&problem("m1,n8,k16"), &hopper()).is_err_and(|why| why.contains("16")));
        assert!(vendor_available(&problem("m1,n16,k16,row"), &hopper()).is_err_and(|why| why.contains("scale")));
        assert!(vendor_available(&problem("m1,n16,k16"), &caps()).is_err_and(|why| why.contains("8.9")));
    }

    #[test]
    fn awkward_shapes_reach_all_tiles_of_warpgroups_and_both_of_the_others() {
        let awkward = super::super::workload().forms[0].awkward;
        let reached = |program: fn(&Problem, &Caps) -> Program, name: &str, value: u32| {
            awkward.iter().any(|shape| constant(&program(&problem(shape), &hopper()), name) == Some(value.into()))
        };
        for columns in [64, 192] {
            assert!(reached(wgmma, "BLOCK_N", columns), "{columns}");
        }
        for columns in [128, 256] {
            assert!(reached(mma, "BLOCK_N", columns), "{columns}");
        }
        for tile in [64, 128] {
            assert!(reached(tiled, "BLOCK_MN", tile), "{tile}");
        }
        let large = wgmma(&problem("m8192,n8192,k8192"), &hopper());
        assert_eq!([constant(&large, "BLOCK_N"), constant(&large, "CLUSTER")], [192, 2].map(|x: u32| Some(x.into())));
    }
}

//! Variants that recompute the probabilities from the log-sum-exp of each row, without a score matrix.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Access, CudaLaunch, Problem, Program, Stage, spread};
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::{Caps, Dialect};

use super::super::masks::{Looks, looking};
use super::super::scores::{Computes, changing, without_changes};
use super::super::{gemm_flops, sizes, stage};
use super::{delta, with_sinks};

/// Own rows of a workgroup, and rows of a tile of the other side. Each of 16 × 16 threads computes 4 × 2 scores.
const OWN: u32 = 64;
const OTHERS: u32 = 32;

/// Stage with workgroups that own 64 rows each; `rows` counts per head, `heads` per batch item.
fn by_own_rows(p: &Problem, caps: &Caps, [text, entry]: [&'static str; 2], [heads, rows]: [u64; 2]) -> Stage {
    // Depth that fits into the portable 16 KiB: eight columns of all four operands at a time.
    let depth = if caps.dialect == Dialect::Wgsl { 8 } else { 16 };
    // Columns of a sum per thread, in 4-element vectors: 16 threads share a row.
    let columns = p["d"].div_ceil(64) as u32;
    let values = if columns > 3 { 4 } else { 8 };
    // Alternately holds rows and values of both sides for the scores, and the rows that are summed.
    let staged = (2 * (OWN + OTHERS) * depth).max(values * columns * 64);
    // Factor rows are padded by one against bank conflicts. CUDA does not pad them, because it reads them as vectors.
    let factors = OWN * if caps.dialect == Dialect::Wgsl { OTHERS + 1 } else { OTHERS };
    stage(p, text, entry)
        .consts(&[("OWN", OWN), ("OTHERS", OTHERS), ("DEPTH", depth), ("VALUES", values)])
        .consts(&[("COLUMNS", columns), ("STAGED", staged / 4)])
        .threads([16, 16, 1])
        .grid(spread(p["b"] * heads * rows.div_ceil(u64::from(OWN))))
        .shared(4 * (staged + factors))
}

/// Arguments of every stage that owns keys.
pub(super) const OF_KEYS: [(&str, &str, Access); 8] = [
    ("own", "k", Read),
    ("own_value", "v", Read),
    ("other", "q", Read),
    ("other_value", "dout", Read),
    ("lse", "lse", Read),
    ("delta", "delta", Read),
    ("gradient", "dk", Write),
    ("value_gradient", "dv", Write),
];

/// Arguments of every stage that owns queries.
pub(super) const OF_QUERIES: [(&str, &str, Access); 7] = [
    ("own", "q", Read),
    ("own_value", "dout", Read),
    ("other", "k", Read),
    ("other_value", "v", Read),
    ("lse", "lse", Read),
    ("delta", "delta", Read),
    ("gradient", "dq", Write),
];

/// Bytes that all of them read: Q, dO, K, V and two numbers per row.
pub(super) fn operands(p: &Problem) -> u64 {
    let (queries, keys, _) = sizes(p);
    2 * (queries + keys) + 2 * p["b"] * p["h"] * p["s"] * 4
}

pub fn flash(p: &Problem, caps: &Caps) -> Program {
    let (queries, keys, _) = sizes(p);
    let dkdv = by_own_rows(p, caps, ["attention/flash_dkdv", "attention_flash_dkdv"], [p["kv"], p["t"]])
        .args(OF_KEYS)
        .cost(Cost::new(4 * gemm_flops(p), operands(p), 2 * keys));
    let dq = by_own_rows(p, caps, ["attention/flash_dq", "attention_flash_dq"], [p["h"], p["s"]])
        .args(OF_QUERIES)
        .cost(Cost::new(3 * gemm_flops(p), operands(p), queries));
    let [dkdv, dq] = [dkdv, dq].map(|stage| looking(p, Looks::Both, changing(p, Computes::Scores, stage)));
    with_sinks(p, vec![delta(p), dkdv, dq])
}

/// Program around a stage that sums dQ in f32 by atomic additions.
fn summing(p: &Problem, sums: Stage) -> Program {
    const THREADS: u32 = 256;
    let elements = p["b"] * p["h"] * p["s"] * p["d"];
    let (queries, keys, _) = sizes(p);
    let convert = stage(p, "attention/convert", "attention_dq_convert")
        .consts(&[("THREADS", THREADS)])
        .args([("dq_sum", Read), ("dq", Write)])
        .threads([THREADS, 1, 1])
        .grid(spread(elements.div_ceil(u64::from(4 * THREADS))))
        .cost(Cost::new(0, elements * 4, queries));
    let zero = Stage::fill("attention_dq_zero", "dq_sum", 0).cost(Cost::new(0, 0, elements * 4));
    let sums = sums.cost(Cost::new(5 * gemm_flops(p), operands(p), elements * 4 + 2 * keys));
    with_sinks(p, vec![delta(p), zero, looking(p, Looks::Both, changing(p, Computes::Scores, sums)), convert])
}

pub fn flash_atomic(p: &Problem, caps: &Caps) -> Program {
    let args = OF_KEYS.into_iter().chain([("dq_sum", "dq_sum", Write)]);
    summing(p, by_own_rows(p, caps, ["attention/flash_atomic", "attention_flash_atomic"], [p["kv"], p["t"]]).args(args))
}

/// Largest head_dim of `flash_mma`: a warp keeps two accumulators of 16 rows in registers.
const MAX_MMA_DIM: u64 = 128;
/// Keys of a block, and queries of one step.
const KEYS: u64 = 128;
const QUERIES: u64 = 64;

pub fn mma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    without_changes(p, "the gradient of flash_mma")?;
    match (p.dtype, caps.compute_capability) {
        (DType::F32, _) => Err("flash_mma multiplies 16-bit floats: tensor cores would round f32 to TF32".to_owned()),
        (_, Some((major, _))) if major >= 8 => match p["d"] {
            d if d <= MAX_MMA_DIM => Ok(()),
            d => Err(format!("flash_mma keeps two sums in registers: head_dim {d} > {MAX_MMA_DIM}")),
        },
        (_, found) => Err(format!("flash_mma needs compute capability 8.0, not {found:?}")),
    }
}

pub fn flash_mma(p: &Problem, _caps: &Caps) -> Program {
    // Rows are padded to whole matrix instructions, and then by 16 bytes against bank conflicts. The score gradients are
    // transposed, with rows of queries.
    let row = p["d"].next_multiple_of(16) + 8;
    let elements = 2 * KEYS * row + 4 * QUERIES * row + KEYS * (QUERIES + 8);
    let dynamic_shared_bytes = (2 * elements + 4 * QUERIES * 4) as u32;
    let sums = stage(p, "attention/flash_mma_backward", "attention_flash_mma_backward")
        .consts(&[("KEYS", KEYS as u32), ("QUERIES", QUERIES as u32)])
        .args([
            ("q", Read),
            ("k", Read),
            ("v", Read),
            ("dout", Read),
            ("lse", Read),
            ("delta", Read),
            ("dk", Write),
            ("dv", Write),
            ("dq_sum", Write),
        ])
        .threads([16, 16, 1])
        .grid(spread(p["b"] * p["kv"] * p["t"].div_ceil(KEYS)))
        .cuda(CudaLaunch { dynamic_shared_bytes, ..CudaLaunch::default() });
    summing(p, sums)
}

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_schema::units::Flops;

    #[test]
    fn what_is_made_twice_is_two_products() {
        for (variant, more) in [("flash", 2), ("flash_atomic", 0)] {
            let case = parse_case(&format!("attention/bwd/b1,h2,s31,t67,d72/f32/{variant}")).expect("valid");
            let stages = case.program(&parallax_schema::testing::hopper()).expect("kernels").stages;
            let products = stages.iter().filter(|s| s.label.contains("flash")).map(|s| s.cost.flops.0).sum();
            assert_eq!(Flops(products), Flops(case.problem.cost().flops.0 / 5 * (5 + more)), "{variant}");
        }
    }
}

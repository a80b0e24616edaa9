//! Grouped GEMM of a mixture of experts: `c[i, :] = a[i, :] · b[g]` for the rows `offsets[g]` to `offsets[g + 1]` of each group `g`.
//!
//! A is `[t, k]`, one row per token, sorted by expert. B is `[e, k, n]`, one matrix per expert. C is `[t, n]`. The first group begins at
//! row 0 and the last ends at row `t`: `offsets[0]` and `offsets[e]` are not read. Groups lie in device memory, and no launch depends
//! on them. `uniform` groups have about as many rows each. Those of `zipf` fall by Zipf's law with exponent 1.05.
//!
//! Operations: `2·t·n·k`. Bytes: A, C, and B of each group with rows, each once. Sums are kept in f32 for every element type.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{nan_in_rows, zipf_octaves};
use parallax_ir::{
    Arg, Axis, BufferSpec, Draw, Elem, Gemm, HostBuffer, Inputs, MATRIX_TILE, OfNan, OpSpec, Precondition, Problem,
    Program, Reference, Shape, Stage, StressInput, Tiles, Variant, Workload, countable, indexable, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::{Bytes, Flops};

use crate::dense;
use crate::products::{equal, saturating, tolerance, zeros};

const A: usize = 0;
const OFFSETS: usize = 1;
const B: usize = 2;

/// Largest number of groups: a workgroup has the first tile of each in its memory.
const MOST_GROUPS: u64 = 1024;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "matrix products of groups of rows with a matrix each",
        axes: const {
            &[
                Axis::extent("t", "rows of all groups"),
                Axis::extent("n", "columns"),
                Axis::extent("k", "depth"),
                Axis::extent("e", "groups"),
                Axis::word("load", "rows of a group", &["uniform", "zipf"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Flops,
            buffers,
            cost,
            tolerance,
            Reference::new(
                |p, _| p["n"] * p["k"],
                |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("t1024,n1024,k1024,e8,uniform")
        .shapes(shapes)
        // One of each; groups without rows, and within a tile; tiles that end within others; whole vectors and odd extents; large
        // tiles, and more than a band of them.
        .awkward(&[
            "t1,n1,k1,e1,uniform",
            "t5,n3,k7,e2,uniform",
            "t7,n16,k16,e13,uniform",
            "t130,n67,k33,e3,zipf",
            "t257,n136,k40,e4,uniform",
            "t200,n72,k136,e16,zipf",
            "t300,n200,k72,e7,zipf",
            "t1000,n257,k31,e300,uniform",
            "t1160,n264,k8,e5,zipf",
            "t1409,n1283,k3,e6,zipf",
            "t1416,n1288,k8,e9,uniform",
        ])
        .huge(&["t46344,n46344,k8,e4,zipf"])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "naive",
                "one output element per thread, straight from device memory; each searches the group of its row",
                naive,
            ),
            Variant::kernel(
                "tiled",
                "a table of tiles is made on the device; a workgroup stages its tiles of A and B in workgroup memory, and a thread \
                 keeps 16 or 64 sums in registers",
                tiled,
            ),
            Variant::kernel(
                "mma",
                "tensor cores by warp-wide instructions, tiles copied asynchronously two steps ahead",
                mma,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
            Variant::kernel(
                "wgmma",
                "tensor cores by four warps together; tiles are loaded and stored by the copy engine, in a ring across tiles; the \
                 last rows of a group are stored by threads",
                wgmma,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| gemm(p).wgmma_available(p.dtype, caps)),
        ])
        .fallback(&["wgmma", "mma", "tiled", "naive"])
        .preconditions(vec![
            Precondition::Ascending { buffer: "offsets", when: |_| true },
            Precondition::Below { buffer: "offsets", bound: |p| p["t"] + 1 },
        ])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (t, n, k, e) = (shape["t"], shape["n"], shape["k"], shape["e"]);
    if e > MOST_GROUPS {
        return Err(format!("there are up to {MOST_GROUPS} groups, not {e}"));
    }
    if !countable([t, n, k, 2]) || !countable([e, n, k]) {
        return Err("the number of products is too large for 64 bits".to_owned());
    }
    [t * k, e * k * n, t * n].into_iter().try_for_each(indexable)
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => {
            &["t1024,n1024,k1024,e8,uniform", "t8192,n4096,k2048,e8,uniform", "t8192,n4096,k2048,e64,zipf"]
        }
        _ => &[
            "t1024,n1024,k1024,e8,uniform",
            "t16384,n14336,k4096,e8,uniform",
            "t16384,n14336,k4096,e8,zipf",
            "t65536,n1536,k4096,e128,uniform",
            "t65536,n1536,k4096,e128,zipf",
        ],
    }
}

/// First row of a group, or `t` behind the last one.
fn begin(shape: &Shape, group: u64) -> u64 {
    let (t, e) = (shape["t"], shape["e"]);
    if group >= e {
        return t;
    }
    if shape.has("zipf") {
        let below = |(first, ranks, weight): (u64, u64, f64)| {
            weight * group.saturating_sub(first).min(ranks) as f64 / ranks as f64
        };
        let whole: f64 = zipf_octaves(e).map(|(.., weight)| weight).sum();
        let share = zipf_octaves(e).map(below).sum::<f64>() / whole;
        return ((t as f64 * share) as u64).min(t);
    }
    // Begins are off by up to an eighth of a group, so that no tile size suits them.
    let even = (u128::from(t) * u128::from(group) / u128::from(e)) as u64;
    match group % 3 {
        _ if group == 0 => 0,
        0 => even,
        1 => even + t / e / 8,
        _ => even - t / e / 8,
    }
}

/// Number of groups with rows.
fn used(p: &Problem) -> u64 {
    (0..p["e"]).filter(|group| begin(&p.shape, *group) < begin(&p.shape, group + 1)).count() as u64
}

/// Entries of the table of tiles for tiles of this height, and one for their number.
fn entries(p: &Problem, height: u64) -> u64 {
    1 + gemm(p).tiles_of_rows(height)
}

/// Height of the lowest tiles of all variants.
const LOWEST: u64 = 64;

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (t, n, k, e) = (p["t"], p["n"], p["k"], p["e"]);
    vec![
        BufferSpec::input("a", Elem::Real, &[t, k], normal),
        BufferSpec::input("offsets", Elem::U32, &[e + 1], |shape, draw| begin(shape, draw.index) as f64),
        BufferSpec::input("b", Elem::Real, &[e, k, n], normal),
        BufferSpec::output("c", Elem::Real, &[t, n]),
        BufferSpec::scratch("tiles", Elem::U32, &[entries(p, LOWEST), 4]),
    ]
}

fn cost(p: &Problem) -> Cost {
    let (t, n, k) = (p["t"], p["n"], p["k"]);
    let element = Elem::Real.storage(p.dtype).bytes();
    let read = (t * k + used(p) * k * n) * element + 4 * (p["e"] + 1);
    Cost { flops: Flops(2 * t * n * k), read: Bytes(read), written: Bytes(t * n * element) }
}

fn stress_inputs() -> Vec<StressInput> {
    let groups = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        groups("one", "all rows in the last group", |_| {
            vec![("offsets", |shape, draw| if draw.index == shape["e"] { shape["t"] as f64 } else { 0.0 })]
        }),
        groups("empty", "every second group without rows", |_| vec![("offsets", every_second)]),
        groups("single", "one row for each group but the last, which has the others", |_| {
            vec![("offsets", |shape, draw| {
                (if draw.index == shape["e"] { shape["t"] } else { draw.index.min(shape["t"]) }) as f64
            })]
        }),
        groups("nan", "rows of A with NaN: so are those of the result, and none of the rows beside them", |_| {
            vec![("a", |shape, draw| nan_in_rows(draw, shape["k"]))]
        }),
        zeros(),
        equal(),
        saturating(),
    ]
}

/// Begins in pairs of two groups, of which the first is empty.
fn every_second(shape: &Shape, draw: Draw) -> f64 {
    let (t, e) = (shape["t"], shape["e"]);
    let pair = draw.index / 2 * 2;
    (if draw.index == e { t } else { t * pair / e }) as f64
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (n, k) = (p["n"], p["k"]);
    let group = (1..p["e"]).filter(|group| inputs.at(OFFSETS, *group) as u64 <= row).count() as u64;
    out.fill(0.0);
    for depth in 0..k {
        let left = inputs.at(A, row * k + depth);
        for column in 0..n {
            out[column as usize] += left * inputs.at(B, (group * k + depth) * n + column);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (a, offsets, b) = (inputs[A].f32(), inputs[OFFSETS].u32(), inputs[B].f32());
    let (t, n, k, e) = (p["t"] as usize, p["n"] as usize, p["k"] as usize, p["e"] as usize);
    let mut groups = Vec::new();
    let (mut rest, mut first) = (&mut outputs[0][..], 0);
    for group in 0..e {
        let end = if group + 1 == e { t } else { offsets[group + 1] as usize };
        let (rows, others) = rest.split_at_mut((end - first) * n);
        if first < end {
            groups.push((&a[first * k..end * k], &b[group * k * n..][..k * n], rows));
        }
        (rest, first) = (others, end);
    }
    groups.into_par_iter().for_each(|(a, b, c)| {
        c.fill(0.0);
        dense::add_gemm(Gemm::new((c.len() / n) as u64, p["n"], p["k"]), a, b, c);
    });
}

/// GEMM of all groups.
fn gemm(p: &Problem) -> Gemm {
    Gemm::new(p["t"], p["n"], p["k"]).groups(p["e"])
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    let consts = [("M", "t"), ("N", "n"), ("K", "k"), ("GROUPS", "e")].map(|(name, key)| (name, p[key] as u32));
    Stage::kernel("grouped_matmul_naive", "grouped_matmul/naive", "grouped_matmul_naive")
        .consts(&consts)
        .threads([16, 16, 1])
        .grid(spread(p["t"].div_ceil(16) * p["n"].div_ceil(16)))
        .args([("a", Read), ("offsets", Read), ("b", Read), ("c", Write)])
        .cost(cost(p))
        .into()
}

/// Program that makes the table for tiles of this height, and computes C by it.
fn by_table(p: &Problem, height: u64, product: Stage) -> Program {
    const THREADS: u64 = 256;
    let consts = [("M", p["t"]), ("GROUPS", p["e"]), ("HEIGHT", height), ("THREADS", THREADS)];
    let table = 16 * entries(p, height);
    let schedule = Stage::kernel("schedule", "grouped_matmul/schedule", "grouped_matmul_schedule")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([THREADS as u32, 1, 1])
        .args([("offsets", Read), ("tiles", Write)])
        .shared((4 * (THREADS + p["e"] + 1)) as u32)
        .cost(Cost::new(0, 4 * (p["e"] + 1), table));
    Program { stages: vec![schedule, product.cost(cost(p))] }
}

/// Arguments of products by a table.
const ARGS: [(&str, parallax_ir::Access); 4] = [("a", Read), ("b", Read), ("c", Write), ("tiles", Read)];

fn tiled(p: &Problem, caps: &Caps) -> Program {
    let gemm = gemm(p);
    let stage = gemm.tiled_then(caps, Tiles::DEFAULT, "grouped_matmul/tiled", "grouped_matmul_tiled", false).args(ARGS);
    by_table(p, gemm.tiled_rows(caps, Tiles::DEFAULT), stage)
}

fn mma(p: &Problem, _caps: &Caps) -> Program {
    by_table(p, u64::from(MATRIX_TILE), gemm(p).mma("grouped_matmul/mma", "grouped_matmul_mma").args(ARGS))
}

fn wgmma(p: &Problem, caps: &Caps) -> Program {
    let rest = [Arg::from(("tiles", Read)), Arg::from(("rows", "c", Write))];
    let gemm = gemm(p);
    let stage = gemm.wgmma(caps, "grouped_matmul/wgmma", "grouped_matmul_wgmma", ["a", "b", "c"], rest, &[]);
    by_table(p, gemm.wgmma_rows(caps), stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("grouped_matmul/fwd/{shape}/f16/naive")).expect("valid").problem
    }

    fn begins(p: &Problem) -> Vec<u64> {
        (0..=p["e"]).map(|group| begin(&p.shape, group)).collect()
    }

    #[test]
    fn groups_follow_each_other_and_have_all_rows() {
        for load in ["uniform", "zipf"] {
            for shape in ["t1,n8,k8,e1", "t7,n8,k8,e13", "t1000,n8,k8,e300", "t8192,n8,k8,e64", "t131072,n8,k8,e8"] {
                let p = problem(&format!("{shape},{load}"));
                let begins = begins(&p);
                assert!(begins.is_sorted(), "{begins:?}");
                assert_eq!((begins[0], begins[begins.len() - 1]), (0, p["t"]));
            }
        }
        let skewed = begins(&problem("t8192,n8,k8,e64,zipf"));
        assert!(skewed[1] > 1000 && skewed[64] - skewed[63] < 40, "{skewed:?}");
        assert_eq!(used(&problem("t7,n8,k8,e13,uniform")), 7);
        assert_eq!(used(&problem("t8192,n8,k8,e64,zipf")), 64);
    }

    /// Groups whose last tiles are as few as can be need the longest table.
    #[test]
    fn the_table_has_room_for_every_grouping() {
        for height in [64, 128, 256] {
            for (rows, groups) in [(1u64, 1u64), (5, 2), (7, 13), (300, 7), (1409, 6), (8192, 64), (1000, 300)] {
                let p = problem(&format!("t{rows},n8,k8,e{groups},uniform"));
                // One row for each group but the last.
                let single = (groups - 1).min(rows);
                let tiles = single + (rows - single).div_ceil(height);
                assert!(tiles < entries(&p, height), "{rows} rows in {groups} groups");
            }
        }
    }

    #[test]
    fn variants_have_the_table_of_their_tiles() {
        let p = problem("t131072,n14336,k4096,e8,uniform");
        let height = |program: &Program| {
            let consts = &program.stages[0].kernel_launch().expect("a kernel").consts;
            consts.iter().find(|(name, _)| *name == "HEIGHT").map(|(_, value)| *value)
        };
        assert_eq!(height(&tiled(&p, &caps())), Some(128.into()));
        assert_eq!(height(&mma(&p, &hopper())), Some(128.into()));
        assert_eq!(height(&wgmma(&p, &hopper())), Some(256.into()), "two blocks share columns of B");
        assert_eq!(height(&wgmma(&problem("t64,n64,k64,e8,uniform"), &hopper())), Some(128.into()));
    }

    #[test]
    fn the_host_computes_the_definition() {
        let p = problem("t130,n67,k33,e3,zipf");
        let inputs = p.inputs(5);
        let given: Vec<HostBuffer> = [A, OFFSETS, B].map(|buffer| inputs.host(buffer).expect("memory")).into();
        let mut outputs = [vec![f32::NAN; 130 * 67]];
        host(&p, &given, &mut outputs);
        for (row, got) in (0..).zip(outputs[0].chunks_exact(67)) {
            let mut want = vec![0.0; 67];
            reference(&p, &inputs, row, &mut want);
            assert!(got.iter().zip(&want).all(|(got, want)| (f64::from(*got) - want).abs() < 1e-4), "row {row}");
        }
    }
}

//! Walsh–Hadamard transform of each row of a matrix: `out[r, k] = Σ (−1)^popcount(j & k) · x[r, j] / √n`.
//!
//! It rotates activations before they are quantised, as in QuaRot (Ashkboos et al., 2024). The matrix is Sylvester's, in natural order,
//! as SciPy's `hadamard` and the package `fast-hadamard-transform` have it. It is its own inverse.
//!
//! Operations: an addition an element for each doubling of the row, and the scale. Bytes: those of a copy.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{nan_in_rows, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, CudaLaunch, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape,
    Stage, StressInput, Tolerance, Variant, Workload, by_pieces, indexable, normal, spread,
};
use parallax_schema::case::{DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

const X: usize = 0;

/// Longest row.
const MOST: u64 = 32_768;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "Walsh–Hadamard transform of the rows of a matrix",
        axes: const {
            &[Axis::extent("r", "rows"), Axis::extent("n", "elements of a row, a power of two up to 32768")]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            |p| {
                let dims = [p["r"], p["n"]];
                vec![BufferSpec::input("x", Elem::Real, &dims, normal), BufferSpec::output("out", Elem::Real, &dims)]
            },
            |p| p.each_once(p["r"] * p["n"] * (u64::from(p["n"].ilog2()) + 1)),
            tolerance,
            Reference::new(
                |p, _| p["n"] * p["n"],
                |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("r1024,n1024")
        .shapes(shapes)
        // Rows of one thread, of a part of a warp, of one warp and of several; more rows than a workgroup takes.
        .awkward(&[
            "r1,n1", "r3,n2", "r5,n4", "r259,n8", "r131,n16", "r67,n32", "r1,n64", "r13,n128", "r9,n256", "r6,n512",
            "r5,n1024", "r3,n2048", "r5,n4096", "r2,n8192", "r2,n16384", "r1,n32768",
        ])
        .huge(&["r131088,n16384"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one element of the result per thread, from all elements of its row", naive),
            Variant::kernel(
                "row",
                "one pass by vectors: a row stays in registers, which change places with threads: in CUDA by shuffles within a \
                 warp, one for two elements, and once in shared memory; in WGSL by workgroup memory",
                row,
            )
            .available(|p, caps| share(p, caps).map(|_| ())),
        ])
        .fallback(&["row", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    match shape["n"] {
        n if !n.is_power_of_two() => Err(format!("a row is a power of two long, not {n}")),
        n if n > MOST => Err(format!("a row has at most {MOST} elements, not {n}")),
        n => indexable(shape["r"] * n),
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r1024,n1024", "r65536,n1024", "r16384,n4096", "r4096,n16384"],
        _ => &[
            "r1024,n1024",
            "r1048576,n128",
            "r131072,n1024",
            "r32768,n4096",
            "r16384,n8192",
            "r8192,n16384",
            "r4096,n32768",
        ],
    }
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 8.0 * 2f64.powi(-24) * (p["n"] as f64 / 2.0).sqrt() + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff() + 2f64.powi(-23),
        reason: "sums of m normal numbers are about √m; n additions one after the other are off by u·n/√2, and fewer in a tree by \
                 less; the scale leaves u·√(n/2), and eight times as much has a probability of e^-32 (Higham and Mary 2019); scale \
                 and product are rounded, and the result once to the element type",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    fn exact_sums(p: &Problem, _: usize) -> Tolerance {
        Tolerance {
            abs: 0.0,
            rel: 2.0 * p.dtype.unit_roundoff() + 2f64.powi(-23),
            reason: "sums of ones are exact in f32; scale and product are rounded, and the result once to the element type",
        }
    }
    vec![
        StressInput::new("zeros", "all zero: so is the result", |_| vec![("x", zero)], exact_sums),
        StressInput::new(
            "equal",
            "all one: the first element is √n, and all others are zero",
            |_| vec![("x", one)],
            exact_sums,
        ),
        StressInput::new(
            "impulse",
            "one element of each row is one, another in each: a row of the matrix",
            |_| vec![("x", impulse)],
            exact_sums,
        ),
        StressInput::new(
            "nan",
            "NaN in every third row: so is that whole row, and no other",
            |_| vec![("x", |shape, draw| nan_in_rows(draw, shape["n"]))],
            tolerance,
        ),
        StressInput::new(
            "outlier",
            "one element of each row is 1000 times as large, which every result has a share of",
            |_| vec![("x", |shape, draw| draw.normal() + 1000.0 * impulse(shape, draw))],
            |p, output| Tolerance {
                abs: tolerance(p, output).abs + 8.0 * 2f64.powi(-24) * 1000.0,
                reason: "as usual, and partial sums of an element of 1000 and normal numbers, before the scale: n of their \
                         roundings, of either sign, are off by 1000·u·√n",
                ..tolerance(p, output)
            },
        ),
        StressInput::new(
            "huge",
            "up to 3e33: sums stay within f32",
            |_| vec![("x", |_, draw| 1e33 * draw.normal())],
            |p, output| Tolerance { abs: 1e33 * tolerance(p, output).abs, ..tolerance(p, output) },
        )
        .applies(wide),
        StressInput::new(
            "subnormal",
            "numbers too small to be normal: their sums, or zeros where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, output| Tolerance {
                abs: (2.0 * (p["n"] as f64).sqrt() + 2.0) * smallest_normal(p),
                reason: "each of the 2n numbers behind a result may be taken for zero, and so may the result",
                ..tolerance(p, output)
            },
        ),
    ]
}

/// One at one element of each row, and zero at the others.
fn impulse(shape: &Shape, draw: Draw) -> f64 {
    let (row, column) = (draw.index / shape["n"], draw.index % shape["n"]);
    if column == row * 7 % shape["n"] { 1.0 } else { 0.0 }
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let n = p["n"];
    let x = inputs.values(X, row * n..(row + 1) * n);
    for (k, out) in out.iter_mut().enumerate() {
        let signed = |(j, x): (usize, &f64)| if (j & k).count_ones().is_multiple_of(2) { *x } else { -x };
        *out = x.iter().enumerate().map(signed).sum::<f64>() / (n as f64).sqrt();
    }
}

/// Elements that a thread of the host transforms together.
const PIECE: usize = 1 << 14;

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (n, scale) = (p["n"] as usize, scale(p));
    let piece = n * (PIECE / n).max(1);
    outputs[0].par_chunks_mut(piece).zip(inputs[X].f32().par_chunks(piece)).for_each(|(out, x)| {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = scale * x);
        out.chunks_exact_mut(n).for_each(transform);
    });
}

/// Transforms a row in place, without a scale.
fn transform(row: &mut [f32]) {
    let mut apart = 1;
    while apart < row.len() {
        for both in row.chunks_exact_mut(2 * apart) {
            let (first, second) = both.split_at_mut(apart);
            for (a, b) in first.iter_mut().zip(second) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        apart *= 2;
    }
}

fn scale(p: &Problem) -> f32 {
    (1.0 / (p["n"] as f64).sqrt()) as f32
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    finished(p, by_pieces(p["r"] * p["n"], 1, "hadamard/naive", "hadamard_naive").consts(&[("COLUMNS", p["n"] as u32)]))
}

fn finished(p: &Problem, stage: Stage) -> Program {
    stage.consts(&[("SCALE", scale(p))]).args([("x", Read), ("out", Write)]).cost(p.cost()).into()
}

/// Division of a row among threads. All numbers are powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    /// Elements of a piece: 16 bytes, in WGSL four elements.
    width: u64,
    /// Threads per row.
    lanes: u64,
    /// Pieces of a thread.
    pieces: u64,
    /// Threads of a workgroup.
    threads: u64,
    /// Components of a vector that are in workgroup memory at a time (WGSL).
    planes: u64,
    /// Words of a plane in a group with one that is unused (WGSL), or more than there are.
    pad: u64,
    /// Bytes of workgroup memory (CUDA: dynamic shared memory).
    shared: u64,
}

/// Threads of a workgroup, unless a row needs more.
const THREADS: u64 = 128;
const WARP: u64 = 32;

fn share(p: &Problem, caps: &Caps) -> Result<Share, String> {
    let (n, cuda) = (p["n"], caps.dialect == Dialect::Cuda);
    let width = if cuda && p.dtype != DType::F32 { 8 } else { 4 };
    if n < 2 * width {
        return Err(format!("a thread has two vectors of {width} elements of a row: n is at least {}", 2 * width));
    }
    let vectors = n / width;
    if cuda {
        // A warp takes rows of up to 1024 elements. Of longer ones a thread keeps 32 elements, or 64 where warps are too many to
        // change places with the pieces of a thread.
        let kept = if n > 32_768 / width { 64 } else { 32 };
        let pieces = (vectors / WARP).clamp(2, kept / width);
        let lanes = vectors / pieces;
        let threads = lanes.max(THREADS);
        let planes = width / 4;
        let shared = if lanes > WARP { 16 * planes * plane(lanes, pieces) * (threads / lanes) } else { 0 };
        let most = caps.cuda.map_or(u64::from(caps.shared_bytes), |cuda| u64::from(cuda.max_block_shared_bytes));
        return match shared <= most {
            true => Ok(Share { width, lanes, pieces, threads, planes, pad: n, shared }),
            false => Err(format!("a row needs {shared} bytes of shared memory; a block has {most}")),
        };
    }
    let most_lanes = 1 << caps.max_invocations.min(caps.max_workgroup[0]).min(1024).ilog2();
    let (few, many) = ((vectors / WARP).clamp(2, 8), 16);
    let pieces = if vectors / few > most_lanes { many } else { few };
    let lanes = vectors / pieces;
    if lanes > most_lanes {
        return Err(format!("a row stays in registers: {n} elements exceed {most_lanes} threads of {} each", 4 * many));
    }
    let threads = lanes.max(THREADS).min(most_lanes);
    // Unused words keep threads apart in banks of memory; without them, the memory is enough for the longest rows.
    let bytes = |planes: u64, pad: u64| 4 * planes * (vectors + vectors / pad) * (threads / lanes);
    let fits = |(planes, pad): &(u64, u64)| bytes(*planes, *pad) <= u64::from(caps.shared_bytes);
    match [(4, 32), (2, 32), (1, 32), (1, n)].into_iter().find(fits) {
        Some((planes, pad)) => Ok(Share { width, lanes, pieces, threads, planes, pad, shared: bytes(planes, pad) }),
        None => Err(format!("a row needs {} bytes of workgroup memory; there are {}", bytes(1, n), caps.shared_bytes)),
    }
}

/// Vectors of four floats in a plane of shared memory, which keeps a row in CUDA. Four vectors between the pieces of a thread, and
/// between planes, let neighbouring threads use different banks.
fn plane(lanes: u64, pieces: u64) -> u64 {
    pieces * (lanes + 4) + 4
}

fn row(p: &Problem, caps: &Caps) -> Program {
    let share = share(p, caps).expect("the plan asks first");
    let Share { width, lanes, pieces, threads, planes, pad, shared } = share;
    let consts = [
        ("ROWS", p["r"]),
        ("COLUMNS", p["n"]),
        ("WIDTH", width),
        ("LANES", lanes),
        ("PIECES", pieces),
        ("THREADS", threads),
    ];
    let stage = Stage::kernel("hadamard_row", "hadamard/row", "hadamard_row")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([threads as u32, 1, 1])
        .grid(spread(p["r"].div_ceil(threads / lanes)));
    let stage = match caps.dialect {
        Dialect::Cuda => {
            // Blocks of the longest rows are alone on a multiprocessor, or two are. The next row is on its way to the second cache.
            let resident = if p["n"] < MOST / 2 { 0 } else { MOST / p["n"] };
            let ahead = resident * u64::from(caps.compute_units.unwrap_or(0));
            let launch = CudaLaunch { dynamic_shared_bytes: shared as u32, ..CudaLaunch::default() };
            stage.consts(&[("AHEAD", ahead as u32), ("PLANE", plane(lanes, pieces) as u32)]).cuda(launch)
        }
        _ => stage.consts(&[("PLANES", planes as u32), ("PAD", pad as u32)]).shared(shared as u32),
    };
    finished(p, stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str, dtype: &str) -> Problem {
        parse_case(&format!("hadamard/fwd/{shape}/{dtype}/naive")).expect("valid").problem
    }

    #[test]
    fn rows_are_powers_of_two() {
        for (shape, part) in [("r1,n12", "not 12"), ("r1,n65536", "at most 32768")] {
            let refused = parse_case(&format!("hadamard/fwd/{shape}/f32/naive")).expect_err("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn shares_hold_every_element_once() {
        let large = Caps { shared_bytes: 32_768, max_invocations: 1024, max_workgroup: [1024; 3], ..caps() };
        for (caps, dtypes) in [(hopper(), &["f32", "f16", "bf16"][..]), (caps(), &["f32", "f16"]), (large, &["f32"])] {
            for n in (3..=15).map(|power| 1u64 << power) {
                for dtype in dtypes {
                    let share = match share(&problem(&format!("r7,n{n}"), dtype), &caps) {
                        Ok(share) => share,
                        Err(why) => {
                            // Two vectors of 16 bits; and registers of 256 threads with 64 elements each.
                            assert!(why.contains("at least 16") || (n > 8192 && caps.max_invocations == 256), "{why}");
                            continue;
                        }
                    };
                    assert_eq!(share.width * share.lanes * share.pieces, n, "{share:?}");
                    assert!(share.threads.is_multiple_of(share.lanes) && share.pieces >= 2, "{share:?}");
                    if caps.dialect == Dialect::Cuda && share.lanes > WARP {
                        // Warps change places with pieces: a thread keeps at least four elements of each warp.
                        assert!(share.lanes / WARP * 4 <= share.pieces * share.width, "{share:?}");
                        assert!(share.pieces * share.width <= 64 && share.threads <= 512, "{share:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_transform_of_the_host_is_that_of_the_definition() {
        let p = problem("r3,n64", "f32");
        let inputs = p.inputs(5);
        let mut out = [vec![0.0; 3 * 64]];
        host(&p, &[inputs.host(X).expect("memory")], &mut out);
        for row in 0..3 {
            let mut want = [0.0; 64];
            reference(&p, &inputs, row, &mut want);
            for (got, want) in out[0][row as usize * 64..].iter().zip(want) {
                assert!((f64::from(*got) - want).abs() < 1e-5, "{got} {want}");
            }
        }
    }

    #[test]
    fn the_matrix_is_its_own_inverse() {
        let mut row: Vec<f32> = (0..256).map(|i| ((i * 37) % 101) as f32).collect();
        let first = row.clone();
        transform(&mut row);
        transform(&mut row);
        assert!(row.iter().zip(first).all(|(twice, once)| *twice == 256.0 * once));
    }
}

//! Scaling of the columns of a table to mean zero and variance one, as scikit-learn's `StandardScaler` does it:
//! `out[i, j] = (x[i, j] − mean[j]) / √(var[j] + ε)`, with the variance over all `n` rows and `ε = 10⁻⁵`, which keeps columns
//! of equal numbers finite.
//!
//! Means and variances are f32 for every element type. Bytes are counted as the table read twice and written once: no element can
//! be scaled before all of its column were seen. Operations are counted as eight an element.

use std::sync::OnceLock;

use crate::suite::Access::{Read, Write};
use crate::suite::hard::{any, one, sums_of_zeros, wide, zero};
use crate::suite::{
    Axis, BufferSpec, Caps, Cost, DType, Direction, Elem, Form, Hard, HostBuffer, Inputs, MOST_PARTS, Preset, Problem,
    Program, Rate, Reference, Rows, Stage, Tolerance, Variant, Workload, indexable, parts_of, spread, sum_of_parts,
    text_for, width,
};
use rayon::prelude::*;

const X: usize = 0;
const EPS: f64 = 1e-5;

/// The form.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "columns scaled to mean zero and variance one",
        axes: const { &[Axis::extent("n", "rows").items(), Axis::extent("f", "columns")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"] * shape["f"]),
        forms: vec![Form {
            direction: Direction::Fwd,
            rate: Rate::Bytes,
            headline: Some("n65536,f64"),
            shapes,
            awkward: &[
                "n1,f1",
                "n2,f3",
                "n7,f8",
                "n257,f1",
                "n100,f37",
                "n67,f132",
                "n1009,f12",
                "n300,f264",
                "n4099,f5",
                "n5000,f64",
            ],
            huge: &["n33570816,f64"],
            buffers: |p| {
                let (n, f) = (p["n"], p["f"]);
                vec![
                    BufferSpec::input("x", Elem::Real, &[n, f], |_, draw| 3.0 + 2.0 * draw.normal()),
                    BufferSpec::output("mean", Elem::F32, &[f]),
                    BufferSpec::output("variance", Elem::F32, &[f]),
                    BufferSpec::output("out", Elem::Real, &[n, f]),
                    BufferSpec::scratch("parts", Elem::F32, &[n.min(MOST_PARTS), 2, f]),
                ]
            },
            cost: |p| Cost::new(8 * p["n"] * p["f"], 2 * bytes(p), bytes(p) + 8 * p["f"]),
            tolerance: |p, output| tolerance(p, output, 10.0, 1.0),
            reference: Reference { row_cost, rows: reference },
            setup: None,
            host: Some(host),
            variants: vec![
                Variant::kernel(
                    "two_pass",
                    "a pass for the means, one for the variances around them, and one that scales: the table is read three \
                     times",
                    two_pass,
                ),
                Variant::kernel(
                    "welford",
                    "one pass for both: blocks of eight rows have a mean and a sum of squares around it, which are merged \
                     (Chan, Golub and LeVeque 1983) in threads, workgroups and at the end; the table is read twice",
                    welford,
                ),
            ],
            fallback: &["welford", "two_pass"],
            preconditions: Vec::new(),
            hard: hard_sets(),
            only: None,
        }],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n65536,f64", "n1000000,f64", "n65536,f512"],
        _ => &["n65536,f64", "n1000000,f64", "n65536,f512", "n4000000,f64"],
    }
}

/// Bytes of the table.
fn bytes(p: &Problem) -> u64 {
    p["n"] * p["f"] * Elem::Real.storage(p.dtype).bytes()
}

const MEAN: usize = 0;
const VARIANCE: usize = 1;

/// For numbers up to `size` from zero, whose deviation is about `spread` or more.
fn tolerance(p: &Problem, output: usize, size: f64, spread: f64) -> Tolerance {
    let error = 8.0 * 2f64.powi(-24) * (64.0 + p["n"] as f64 / 1024.0).sqrt();
    // The deviation of few rows may be far below that of all numbers.
    let few = if p["n"] < 16 { 32.0 } else { 1.0 };
    let reason = "sums of numbers up to a size in f32: the roundings of a chain grow with its root, and eight times as much \
                  has a probability of e^-32 (Higham and Mary 2019); a mean is off by that, a variance by its product with \
                  deviations, a result by both over the deviation; it is rounded once";
    match output {
        MEAN => Tolerance { abs: size * error, rel: 0.0, reason },
        VARIANCE => Tolerance { abs: 4.0 * size * spread * error, rel: 16.0 * error, reason },
        _ => Tolerance { abs: few * 8.0 * size / spread * error, rel: 2.0 * p.dtype.unit_roundoff(), reason },
    }
}

fn hard_sets() -> Vec<Hard> {
    vec![
        Hard {
            name: "zeros",
            about: "all zero: so is everything",
            applies: any,
            fills: |_| vec![("x", zero)],
            tolerance: |p, _| sums_of_zeros(p),
        },
        Hard {
            name: "equal",
            about: "all one: a variance of zero, or of what the mean is off by, and a result of zero",
            applies: any,
            fills: |_| vec![("x", one)],
            tolerance: |p, output| match output {
                MEAN => tolerance(p, MEAN, 1.0, 1.0),
                VARIANCE => Tolerance { abs: 1e-9, ..tolerance(p, VARIANCE, 1.0, 1.0) },
                // Over the root of ε.
                _ => tolerance(p, output, 1.0, 0.003),
            },
        },
        Hard {
            name: "offset",
            about: "means a thousand times the deviation: the mean of squares minus the square of the mean would lose it",
            applies: |p| p.dtype == DType::F32,
            fills: |_| vec![("x", |_, draw| 1000.0 + draw.normal())],
            tolerance: |p, output| tolerance(p, output, 1000.0, 1.0),
        },
        Hard {
            name: "huge",
            about: "up to 6e4 in f16 and 1e15 otherwise: sums of squares stay within f32",
            applies: any,
            fills: |p| match wide(p) {
                true => vec![("x", |_, draw| 1e15 * draw.uniform())],
                false => vec![("x", |_, draw| 6e4 * draw.uniform())],
            },
            tolerance: |p, output| {
                let size = if wide(p) { 1e15 } else { 6e4 };
                tolerance(p, output, size, size / 10.0)
            },
        },
    ]
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    // Means and variances are made once, for whoever asks first.
    if output == MEAN { 2 * p["n"] * p["f"] } else { 4 * p["f"] }
}

/// Mean and variance of each column.
fn moments(p: &Problem, inputs: &Inputs) -> Vec<(f64, f64)> {
    let (n, f) = (p["n"], p["f"]);
    let of_column = |j: u64| {
        let column = || (0..n).map(|i| inputs.at(X, i * f + j));
        let mean = column().sum::<f64>() / n as f64;
        (mean, column().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64)
    };
    (0..f).into_par_iter().map(of_column).collect()
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let known = OnceLock::new();
    Box::new(move |output, row, out| {
        let moments = known.get_or_init(|| moments(p, inputs));
        for ((slot, (mean, variance)), at) in out.iter_mut().zip(moments).zip(row * p["f"]..) {
            *slot = match output {
                MEAN => *mean,
                VARIANCE => *variance,
                _ => (inputs.at(X, at) - mean) / (variance + EPS).sqrt(),
            };
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (n, f, x) = (p["n"] as usize, p["f"] as usize, inputs[X].f32());
    let [means, variances, out] = outputs else { panic!("three outputs") };
    // Every thread's rows are summed column by column, so that memory is read in its order.
    let per_thread = n.div_ceil(4 * rayon::current_num_threads()).max(1) * f;
    let sum = |term: &(dyn Fn(usize, f32) -> f64 + Sync)| {
        let of_rows = |rows: &[f32]| {
            let mut sums = vec![0.0; f];
            for row in rows.chunks_exact(f) {
                for (j, (sum, x)) in sums.iter_mut().zip(row).enumerate() {
                    *sum += term(j, *x);
                }
            }
            sums
        };
        let parts: Vec<Vec<f64>> = x.par_chunks(per_thread).map(of_rows).collect();
        (0..f).map(|j| parts.iter().map(|part| part[j]).sum::<f64>() / n as f64).collect::<Vec<f64>>()
    };
    let mean = sum(&|_, x| f64::from(x));
    let variance = sum(&|j, x| (f64::from(x) - mean[j]).powi(2));
    let scale: Vec<f64> = variance.iter().map(|variance| 1.0 / (variance + EPS).sqrt()).collect();
    out.par_chunks_exact_mut(f).zip(x.par_chunks_exact(f)).for_each(|(out, x)| {
        for (j, (out, x)) in out.iter_mut().zip(x).enumerate() {
            *out = ((f64::from(*x) - mean[j]) * scale[j]) as f32;
        }
    });
    let narrowed = |to: &mut Vec<f32>, from: Vec<f64>| to.iter_mut().zip(from).for_each(|(to, x)| *to = x as f32);
    narrowed(means, mean);
    narrowed(variances, variance);
}

/// Threads in a workgroup.
const THREADS: u64 = 256;
/// Most threads that share a row: 512 bytes of it.
const MOST_LANES: u64 = 32;

/// Fewest rows of a thread, if there are so many: a block of those that are merged.
const FEWEST_ROWS: u64 = 8;

/// How a table is shared: strips of rows, one for each part, times blocks of columns.
struct Share {
    width: u64,
    lanes: u64,
    blocks: u64,
    strip: u64,
    parts: u64,
}

impl Share {
    fn of(p: &Problem, caps: &Caps) -> Share {
        let width = width(p["f"], p.dtype, caps);
        let pieces = p["f"] / width;
        let lanes = pieces.next_power_of_two().min(MOST_LANES);
        let blocks = pieces.div_ceil(lanes);
        // As many strips as keep the device busy, if their threads have rows enough, and none without a row.
        let wanted = parts_of(p["n"].div_ceil(FEWEST_ROWS * THREADS / lanes), caps).div_ceil(blocks);
        let strip = p["n"].div_ceil(wanted);
        Share { width, lanes, blocks, strip, parts: p["n"].div_ceil(strip) }
    }

    /// A stage of a workgroup for each strip of each block.
    fn stage(&self, p: &Problem, caps: &Caps, texts: [&'static str; 3], entry: &'static str) -> Stage {
        let consts = [
            ("ROWS", p["n"]),
            ("COLUMNS", p["f"]),
            ("WIDTH", self.width),
            ("LANES", self.lanes),
            ("BLOCKS", self.blocks),
            ("STRIP", self.strip),
            ("PARTS", self.parts),
            ("THREADS", THREADS),
        ];
        Stage::kernel(entry, text_for(self.width, caps, texts), entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([THREADS as u32, 1, 1])
            .grid(spread(self.parts * self.blocks))
    }

    /// Workgroup memory of so many pieces of each thread.
    fn shared(&self, pieces: u64) -> u32 {
        (pieces * THREADS * self.width * 4) as u32
    }
}

fn scale(p: &Problem, caps: &Caps, share: &Share) -> Stage {
    let texts = ["standard_scaler/scale", "standard_scaler/scale1", "standard_scaler/scale4"];
    share
        .stage(p, caps, texts, "standard_scaler_scale")
        .consts(&[("EPS", EPS as f32)])
        .args([("x", Read), ("mean", Read), ("variance", Read), ("out", Write)])
        .costing(Cost::new(2 * p["n"] * p["f"], bytes(p), bytes(p)))
}

fn two_pass(p: &Problem, caps: &Caps) -> Program {
    let (share, elements, texts) = (
        Share::of(p, caps),
        p["n"] * p["f"],
        ["standard_scaler/sums", "standard_scaler/sums1", "standard_scaler/sums4"],
    );
    let left = 4 * share.parts * p["f"];
    let sums = share
        .stage(p, caps, texts, "standard_scaler_sums")
        .args([("x", Read), ("parts", Write)])
        .shared(share.shared(1))
        .costing(Cost::new(elements, bytes(p), left));
    let squares = share
        .stage(p, caps, texts, "standard_scaler_squares")
        .args([("x", Read), ("parts", Write), ("mean", Read)])
        .shared(share.shared(1))
        .costing(Cost::new(3 * elements, bytes(p), left));
    let average = |of: &'static str| {
        sum_of_parts(share.parts, p["f"], caps, "standard_scaler/average", "standard_scaler_average")
            .called(of)
            .consts(&[("SHARE", (1.0 / p["n"] as f64) as f32)])
            .args([("parts", "parts", Read), ("average", of, Write)])
    };
    Program { stages: vec![sums, average("mean"), squares, average("variance"), scale(p, caps, &share)] }
}

fn welford(p: &Problem, caps: &Caps) -> Program {
    let share = Share::of(p, caps);
    let texts = ["standard_scaler/welford", "standard_scaler/welford1", "standard_scaler/welford4"];
    let left = 8 * share.parts * p["f"];
    let moments = share
        .stage(p, caps, texts, "standard_scaler_welford")
        .args([("x", Read), ("parts", Write)])
        .shared(share.shared(2))
        .costing(Cost::new(6 * p["n"] * p["f"], bytes(p), left));
    let merge = merged([p["n"], p["f"]], share.strip, THREADS);
    Program { stages: vec![moments, merge, scale(p, caps, &share)] }
}

/// Mean and variance of the columns of a table from those of strips of so many rows, as they lie in `parts`: for each strip the
/// means of all columns, then the sums of squares around them. Workgroups have so many threads.
pub(super) fn merged([rows, columns]: [u64; 2], strip: u64, threads: u64) -> Stage {
    const ACROSS: u64 = 32;
    let (parts, down) = (rows.div_ceil(strip), threads / ACROSS);
    let consts = [("ROWS", rows), ("COLUMNS", columns), ("STRIP", strip), ("PARTS", parts), ("DOWN", down)];
    Stage::kernel("standard_scaler_merge", "standard_scaler/merge", "standard_scaler_merge")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .args([("parts", Read), ("mean", Write), ("variance", Write)])
        .threads([ACROSS as u32, down as u32, 1])
        .grid(spread(columns.div_ceil(ACROSS)))
        .shared(12 * threads as u32)
        .costing(Cost::new(6 * parts * columns, 8 * parts * columns, 8 * columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Case;
    use crate::testing::mock::{caps, hopper};

    #[test]
    fn strips_cover_all_rows_and_blocks_all_columns() {
        for (n, f) in [(1, 1), (7, 8), (300, 264), (1_000_000, 64), (65_536, 512), (33_570_816, 64), (3, 100_000)] {
            for caps in [caps(), hopper()] {
                let case: Case = format!("standard_scaler/fwd/n{n},f{f}/f16/welford").parse().expect("valid");
                let Share { width, lanes, blocks, strip, parts } = Share::of(&case.problem, &caps);
                assert!(parts * strip >= n && (parts - 1) * strip < n && parts <= MOST_PARTS, "{case}");
                assert!(blocks * lanes * width >= f && (blocks - 1) * lanes * width < f, "{case}");
                assert!(lanes.is_power_of_two() && THREADS.is_multiple_of(lanes), "{case}");
            }
        }
    }
}

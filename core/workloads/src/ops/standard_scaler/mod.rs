//! Scaling of the columns of a table to mean zero and variance one, as in scikit-learn's `StandardScaler`: `out[i, j] = (x[i, j] −
//! mean[j]) / √(var[j] + ε)`. The variance is over all `n` rows, and `ε = 10⁻⁵` keeps columns of equal numbers finite.
//!
//! Means and variances are f32 for every element type. Bytes: the table read twice and written once, because scaling needs the
//! whole column first. Operations: eight an element.
//!
//! With `crossing` the table is in pinned host memory, and the scaled one returns there. It shows the benefit of the device for a
//! program with its data on the host. Means and variances stay on the device, to scale the next table.

use parallax_ir::parallel::*;
use parallax_ir::stress::{one, sums_of_zeros, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Place, Problem, Reference, Rows, Scaling,
    StressInput, Tolerance, Variant, Workload, indexable,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::catalog::Sides;

mod stages;

pub(super) use stages::merged;

const X: usize = 0;
const EPS: f64 = 1e-5;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "columns scaled to mean zero and variance one",
        axes: const {
            &[
                Axis::extent("n", "rows").items().scaling(&SCALING),
                Axis::extent("f", "columns"),
                Axis::word("data", "memory of the table", &["", CROSSING]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"] * shape["f"]),
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            |p| Cost::new(8 * p["n"] * p["f"], 2 * bytes(p), bytes(p) + 8 * p["f"]),
            |p, output| tolerance(p, output, 10.0, 1.0),
            Reference::new(row_cost, reference),
            OfNan::MIXED,
        )
        .headline("n65536,f64")
        .shapes(shapes)
        .awkward(&[
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
            "n3,f5,crossing",
            "n1009,f12,crossing",
        ])
        .huge(&["n33570816,f64"])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "two_pass",
                "a pass for the means, one for the variances around them, and one that scales: the table is read three \
                 times",
                stages::two_pass,
            ),
            Variant::kernel(
                "welford",
                "one pass for both: blocks of eight rows have a mean and a sum of squares around it, which are merged \
                 (Chan, Golub and LeVeque 1983) in threads, workgroups and at the end; the table is read twice",
                stages::welford,
            ),
        ])
        .fallback(&["welford", "two_pass"])
        .stress(stress_inputs())],
    }
}

/// Word of a shape with its table on the host.
const CROSSING: &str = "crossing";

const SCALING: Scaling = Scaling {
    counts: "rows",
    per: None,
    shapes: &["n10000,f64", "n100000,f64", "n1000000,f64"],
    sides: Sides::HostAndDevice { data: &[("", "on the device"), (CROSSING, "from and to the host")] },
};

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n65536,f64", "n1000000,f64", "n65536,f512", "n65536,f64,crossing"],
        _ => &[
            "n65536,f64",
            "n1000000,f64",
            "n65536,f512",
            "n4000000,f64",
            "n65536,f64,crossing",
            "n1000000,f64,crossing",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (n, f) = (p["n"], p["f"]);
    let crosses = p.shape.has(CROSSING);
    let place = if crosses { Place::HostPinned } else { Place::Device };
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &[n, f], |_, draw| 3.0 + 2.0 * draw.normal()).at(place),
        BufferSpec::output("mean", Elem::F32, &[f]),
        BufferSpec::output("variance", Elem::F32, &[f]),
        BufferSpec::output("out", Elem::Real, &[n, f]).at(place),
        BufferSpec::scratch("parts", Elem::F32, &[n.min(MOST_PARTS), 2, f]),
    ];
    if crosses {
        buffers.extend(["table", "scaled"].map(|name| BufferSpec::scratch(name, Elem::Real, &[n, f])));
    }
    buffers
}

/// Bytes of the table.
fn bytes(p: &Problem) -> u64 {
    p["n"] * p["f"] * Elem::Real.storage(p.dtype).bytes()
}

const MEAN: usize = 0;
const VARIANCE: usize = 1;

/// Tolerance for numbers up to `size` from zero, with a deviation of about `spread` or more.
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

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new("zeros", "all zero: so is everything", |_| vec![("x", zero)], |p, _| sums_of_zeros(p)),
        StressInput::new(
            "equal",
            "all one: a variance of zero, or of the error of the mean, and a result of zero",
            |_| vec![("x", one)],
            |p, output| match output {
                MEAN => tolerance(p, MEAN, 1.0, 1.0),
                VARIANCE => Tolerance { abs: 1e-9, ..tolerance(p, VARIANCE, 1.0, 1.0) },
                // Over the root of ε.
                _ => tolerance(p, output, 1.0, 0.003),
            },
        ),
        StressInput::new(
            "offset",
            "means a thousand times the deviation: the mean of squares minus the square of the mean would lose it",
            |_| vec![("x", |_, draw| 1000.0 + draw.normal())],
            |p, output| tolerance(p, output, 1000.0, 1.0),
        )
        .applies(|p| p.dtype == DType::F32),
        StressInput::new(
            "huge",
            "up to 6e4 in f16 and 1e15 otherwise: sums of squares stay within f32",
            |p| match wide(p) {
                true => vec![("x", |_, draw| 1e15 * draw.uniform())],
                false => vec![("x", |_, draw| 6e4 * draw.uniform())],
            },
            |p, output| {
                let size = if wide(p) { 1e15 } else { 6e4 };
                tolerance(p, output, size, size / 10.0)
            },
        ),
    ]
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    // Means and variances are computed once, at the first access.
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
    // Computed at once: rows are requested in parallel, and a lazy computation, which is parallel too, could wait for itself.
    let moments = moments(p, inputs);
    Box::new(move |output, row, out| {
        for ((slot, (mean, variance)), at) in out.iter_mut().zip(&moments).zip(row * p["f"]..) {
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
    let per_thread = n.div_ceil(4 * current_num_threads()).max(1) * f;
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

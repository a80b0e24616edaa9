//! Read: `out[g] = Σ x[i]` over the 16 384 elements `i` of the g-th chunk. The last chunk may be shorter.
//!
//! Everything is read and almost nothing written, so its speed is the read bandwidth. This is the ceiling of kernels that reduce.
//! It is mainly a probe for that ceiling, and appears only in the preset `full`.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Finds, HostBuffer, Inputs, OfNan, OpSpec, Probe, Problem, Program, Reference, Role,
    Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;
use parallax_schema::units::{Bytes, Flops};

const X: usize = 0;

/// Elements per output.
const CHUNK: u64 = 16_384;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[Probe { finds: Finds::Bandwidth, shape: |s| Some(format!("n{}", s.working_set / 4)), variants: &[] }],
        about: "sums of chunks: how fast memory is read",
        axes: const { &[Axis::extent("n", "elements")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"]),
        forms: vec![
            OpSpec::new(
                Direction::Fwd,
                Rate::Bytes,
                buffers,
                cost,
                tolerance,
                Reference::new(row_cost, |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out))),
                OfNan::Kept,
            )
            .shapes(|preset| match preset {
                Preset::Full => &["n67108864"],
                _ => &[],
            })
            .awkward(&["n1", "n3", "n9", "n1009", "n16383", "n16384", "n16385", "n50001", "n163841"])
            .huge(&["n2148532224"])
            .host(host)
            .variants(vec![
                Variant::kernel(
                    "vec4",
                    "a workgroup per chunk; a thread reads 16 bytes, adds them, and reads on",
                    vec4,
                ),
                Variant::kernel(
                    "stride4",
                    "the same with four independent accesses of 16 bytes under way before the first is added",
                    stride4,
                ),
            ])
            .fallback(&["stride4", "vec4"])
            .stress(stress_inputs()),
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let chunks = p["n"].div_ceil(CHUNK);
    // In f32 for every element type: a rounded sum would hide the error of the additions.
    let out = BufferSpec { role: Role::Output { row_len: 1 }, ..BufferSpec::output("out", Elem::F32, &[chunks]) };
    vec![BufferSpec::input("x", Elem::Real, &[p["n"]], |_: &Shape, draw: Draw| draw.normal()), out]
}

fn cost(p: &Problem) -> Cost {
    Cost {
        flops: Flops(p["n"]),
        read: Bytes(p["n"] * Elem::Real.storage(p.dtype).bytes()),
        written: Bytes(p["n"].div_ceil(CHUNK) * 4),
    }
}

/// Largest number of additions that an element passes through. These are up to 16 in its own thread and lane (32 bits a lane) and 3
/// in the join of lanes and accumulators. Further 13 are across the workgroup, and 7 in the host's sum.
const DEPTH: f64 = 40.0;

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: DEPTH * 2f64.powi(-24) * 3.47 * p["n"].min(CHUNK) as f64,
        rel: 2f64.powi(-24),
        reason: "values of at most 3.47 are summed in f32, each passing through at most 40 additions: that many times \
                 u times the sum of magnitudes",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new("zeros", "sums of zeros", |_| vec![("x", zero)], exact),
        StressInput::new("equal", "all one: the length of the chunk, exactly", |_| vec![("x", one)], exact),
        StressInput::new(
            "huge",
            "60 000 in f16 and 1e34 otherwise: sums of a chunk stay within f32",
            |p| match p.dtype {
                DType::F16 => vec![("x", |_, draw| 6e4 * draw.uniform())],
                _ => vec![("x", |_, draw| 1e34 * draw.uniform())],
            },
            |p, _| Tolerance {
                abs: DEPTH * 2f64.powi(-24) * p["n"].min(CHUNK) as f64 * if wide(p) { 1e34 } else { 6e4 },
                ..tolerance(p, 0)
            },
        ),
        StressInput::new(
            "subnormal",
            "numbers too small to be normal: a small sum, or zero where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: (p["n"].min(CHUNK) + 1) as f64 * smallest_normal(p),
                rel: 0.0,
                reason: "each term may be taken for zero, and so may the sum",
            },
        ),
        StressInput::new(
            "not finite",
            "an infinity in every second chunk and NaN in the others: so are their sums",
            |_| {
                vec![("x", |_, draw| match (draw.index % 1000, draw.index / CHUNK % 2) {
                    (0, 0) => f64::INFINITY,
                    (0, _) => f64::NAN,
                    _ => draw.normal(),
                })]
            },
            tolerance,
        ),
    ]
}

fn row_cost(p: &Problem, _output: usize) -> u64 {
    CHUNK.min(p["n"])
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    out[0] = 0.0;
    for i in row * CHUNK..((row + 1) * CHUNK).min(p["n"]) {
        out[0] += inputs.at(X, i);
    }
}

fn host(_p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    // Halves until eight are left: this keeps the error within the bound, and the compiler adds eight at a time.
    fn sum(x: &[f32]) -> f32 {
        if x.len() <= 8 {
            return x.iter().sum();
        }
        let (left, right) = x.split_at(x.len() / 2);
        sum(left) + sum(right)
    }
    let chunks = inputs[X].f32().par_chunks(CHUNK as usize);
    outputs[0].par_iter_mut().zip(chunks).for_each(|(out, chunk)| *out = sum(chunk));
}

/// Threads of a workgroup.
const THREADS: u64 = 256;

fn program(p: &Problem, text: &'static str, entry: &'static str) -> Program {
    let per_vector = 16 / Elem::Real.storage(p.dtype).bytes();
    let consts = [
        ("N", p["n"]),
        ("THREADS", THREADS),
        ("PER_VECTOR", per_vector),
        // Of the array, the last one possibly partial; and of a chunk.
        ("VECTORS", p["n"].div_ceil(per_vector)),
        ("CHUNK_VECTORS", CHUNK / per_vector),
    ];
    Stage::kernel(entry, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .args([("x", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["n"].div_ceil(CHUNK)))
        .shared(THREADS as u32 * 4)
        .cost(cost(p))
        .into()
}

fn vec4(p: &Problem, _caps: &Caps) -> Program {
    program(p, "read/vec4", "read_vec4")
}

fn stride4(p: &Problem, _caps: &Caps) -> Program {
    program(p, "read/stride4", "read_stride4")
}

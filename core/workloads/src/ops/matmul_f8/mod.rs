//! GEMM of 8-bit floats with scales, as in inference and training of language models: `c[i,j] = Σ a[i,d] · b[j,d] · scales`.
//!
//! A is `[m, k]`, one row per token. B is `[n, k]`, one row per output channel, as weights are stored. A 32-bit word has four e4m3
//! codes ("OFP8", Open Compute Project 2023), neighbours along k, the first in its lowest byte. Numbers reach 448. The codes 127 and
//! 255 are NaN. With `e5m2`, A has codes of that format, as gradients have. They reach 57 344, and have infinities.
//!
//! Scales are f32. By `tensor` A and B have one each, by `row` one for each of their rows. By `block` A has one for each 128
//! neighbours of a row, and B one for each 128 rows and 128 of k ("DeepSeek-V3 Technical Report", 2024).
//!
//! A product of two codes is exact in f32. Sums are f32, and rounded once to the element type.
//!
//! Operations: `2·m·n·k`, on 8-bit floats. No ceiling of this suite applies, because all are of wider floats.

mod codes;
mod inputs;
mod kernels;

use parallax_ir::parallel::*;
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Reference, Shape, Variant, Workload, indexable,
};
use parallax_schema::case::{DType, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use crate::result_tiles::{LARGE_FROM, WIDE_FROM};
use crate::vector;
use codes::Numbers;
use inputs::{numbers_of_a, numbers_of_b, scale, stress_inputs, tolerance};

const A: usize = 0;
const B: usize = 1;
const A_SCALE: usize = 2;
const B_SCALE: usize = 3;

/// Codes in a word.
const PACKED: u64 = 4;
/// Neighbours along k with one scale, and rows of B with one, by `block`.
const SPAN: u64 = 128;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "matrix product of 8-bit floats with scales",
        axes: const {
            &[
                Axis::extent("m", "rows"),
                Axis::extent("n", "columns"),
                Axis::extent("k", "depth, a multiple of 4"),
                Axis::word("scales", "elements with one scale", &["tensor", "row", "block"]),
                Axis::word("gradient", "whether A has e5m2 codes, as gradients", &["", "e5m2"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![
            OpSpec::new(
                Direction::Fwd,
                Rate::Ops,
                buffers,
                |p| p.each_once(2 * p["m"] * p["n"] * p["k"]),
                tolerance,
                Reference::new(
                    |p, _| p["n"] * p["k"],
                    |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
                ),
                OfNan::Unsaid("NaN is a code within whole numbers; the set `nan` has it"),
            )
            .headline("m1024,n1024,k1024,tensor")
            .shapes(shapes)
            .awkward(&[
                "m1,n1,k4,tensor",
                "m5,n3,k28,block",
                "m16,n16,k32,row",
                "m65,n67,k132,block",
                // Whole pieces for the copy engine, with short last blocks on every axis.
                "m131,n200,k336,block",
                "m1,n257,k124,row",
                "m131,n1,k68,tensor",
                "m129,n136,k160,row",
                // More than eight rows of tiles: the order of tiles has a second band, and a short last one.
                "m1160,n264,k16,tensor",
                // Enough tiles for 64 sums a thread if the number of multiprocessors is unknown; ragged, and in whole vectors.
                "m1409,n1283,k12,row",
                "m1412,n1284,k16,tensor",
                // Enough for wide tiles: on warpgroups they begin in the middle of B's blocks.
                "m5,n16904,k272,block",
                "m5,n33800,k12,row",
                // Tiles are whole.
                "m256,n512,k384,row",
                "m256,n512,k256,block",
                // A by the other format, in each kernel.
                "m5,n3,k28,row,e5m2",
                "m65,n67,k132,block,e5m2",
                "m129,n136,k160,tensor,e5m2",
                "m131,n200,k336,block,e5m2",
            ])
            .huge(&["m46344,n46344,k8,tensor"])
            .host(host)
            .variants(variants())
            // Without `vendor`: a time of the library must not come from another kernel.
            .fallback(&["wgmma", "mma", "tiled", "naive"])
            .stress(stress_inputs()),
        ],
    }
}

fn variants() -> Vec<Variant> {
    vec![
        Variant::kernel("naive", "one output element per thread, each code decoded by itself", kernels::naive),
        Variant::kernel(
            "tiled",
            "codes become f32 on their way to workgroup memory; 16 or 64 sums in a thread's registers",
            kernels::tiled,
        )
        .tunables(&[LARGE_FROM]),
        Variant::kernel(
            "mma",
            "tensor cores by warp-wide instructions: tiles are copied asynchronously, and codes become f16 in registers",
            kernels::mma,
        )
        .only_in(&[Dialect::Cuda])
        .tunables(&[WIDE_FROM])
        .available(kernels::mma_available),
        Variant::kernel(
            "wgmma",
            "tensor cores by four warps together, on the codes; sums of 128 products are added in f32 registers",
            kernels::wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .tunables(&[kernels::WIDEST])
        .available(kernels::wgmma_available),
        Variant::kernel("vendor", "the vendor's library, cuBLASLt, without its fast accumulation", kernels::vendor)
            .only_in(&[Dialect::Cuda])
            .available(kernels::vendor_available),
    ]
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (m, n, k) = (shape["m"], shape["n"], shape["k"]);
    if !k.is_multiple_of(PACKED) {
        return Err(format!("four codes are packed in a word: a depth of {k} is not a multiple of 4"));
    }
    [m * (k / PACKED), n * (k / PACKED), m * n].into_iter().try_for_each(indexable)
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m1024,n1024,k1024,tensor", "m4096,n4096,k4096,tensor", "m4096,n4096,k4096,block"],
        _ => &[
            "m1024,n1024,k1024,tensor",
            "m4096,n4096,k4096,tensor",
            "m4096,n4096,k4096,row",
            "m4096,n4096,k4096,block",
            // Layers of language models: projections of Llama 3 8B, and of DeepSeek-V3.
            "m8192,n14336,k4096,row",
            "m4096,n7168,k2048,block",
            "m4096,n4096,k7168,block",
            "m64,n24576,k1536,block",
            // Gradients of a layer's inputs.
            "m4096,n4096,k4096,tensor,e5m2",
            "m4096,n4096,k4096,row,e5m2",
            "m8192,n8192,k8192,row",
            "m8192,n8192,k8192,block",
            "m8192,n8192,k8192,tensor",
        ],
    }
}

/// Elements with one scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scales {
    Tensor,
    Row,
    Block,
}

impl Scales {
    fn of(shape: &Shape) -> Scales {
        match () {
            () if shape.has("block") => Scales::Block,
            () if shape.has("row") => Scales::Row,
            () => Scales::Tensor,
        }
    }
}

/// Blocks of a row along k.
fn parts(shape: &Shape) -> u64 {
    shape["k"].div_ceil(SPAN)
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, n, words) = (p["m"], p["n"], p["k"] / PACKED);
    let (of_a, of_b) = match Scales::of(&p.shape) {
        Scales::Tensor => (vec![1], vec![1]),
        Scales::Row => (vec![m], vec![n]),
        Scales::Block => (vec![m, parts(&p.shape)], vec![n.div_ceil(SPAN), parts(&p.shape)]),
    };
    vec![
        BufferSpec::input("a", Elem::U32, &[m, words], numbers_of_a),
        BufferSpec::input("b", Elem::U32, &[n, words], numbers_of_b),
        BufferSpec::input("a_scale", Elem::F32, &of_a, scale),
        BufferSpec::input("b_scale", Elem::F32, &of_b, scale),
        BufferSpec::output("c", Elem::Real, &[m, n]),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (words, parts) = (p["k"] / PACKED, parts(&p.shape));
    let of_row = |numbers: &'static Numbers, buffer, row: u64| {
        let each = move |word| numbers.decoded(inputs.at(buffer, row * words + word) as u32);
        (0..words).flat_map(each).map(f64::from)
    };
    let left: Vec<f64> = of_row(Numbers::of_a(&p.shape), A, row).collect();
    for (column, out) in out.iter_mut().enumerate() {
        let column = column as u64;
        let scale = |part: u64| match Scales::of(&p.shape) {
            Scales::Tensor => inputs.at(A_SCALE, 0) * inputs.at(B_SCALE, 0),
            Scales::Row => inputs.at(A_SCALE, row) * inputs.at(B_SCALE, column),
            Scales::Block => inputs.at(A_SCALE, row * parts + part) * inputs.at(B_SCALE, column / SPAN * parts + part),
        };
        let mut sum = 0.0;
        let mut factor = 0.0;
        for (d, (a, b)) in left.iter().zip(of_row(Numbers::of_b(), B, column)).enumerate() {
            if (d as u64).is_multiple_of(SPAN) {
                factor = scale(d as u64 / SPAN);
            }
            sum += a * b * factor;
        }
        *out = sum;
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [a, b] = [(A, Numbers::of_a(&p.shape)), (B, Numbers::of_b())].map(|(buffer, numbers)| {
        inputs[buffer].u32().iter().flat_map(|word| numbers.decoded(*word)).collect::<Vec<_>>()
    });
    let (a_scale, b_scale) = (inputs[A_SCALE].f32(), inputs[B_SCALE].f32());
    let (n, k, span) = (p["n"] as usize, p["k"] as usize, SPAN as usize);
    let (scales, parts) = (Scales::of(&p.shape), parts(&p.shape) as usize);
    outputs[0].par_chunks_mut(n).enumerate().for_each(|(row, out)| {
        let left = &a[row * k..][..k];
        for (column, (out, right)) in out.iter_mut().zip(b.chunks_exact(k)).enumerate() {
            *out = match scales {
                Scales::Tensor => a_scale[0] * b_scale[0] * vector::dot(left, right),
                Scales::Row => a_scale[row] * b_scale[column] * vector::dot(left, right),
                Scales::Block => {
                    let factors = a_scale[row * parts..].iter().zip(&b_scale[column / span * parts..]);
                    let dots = left.chunks(span).zip(right.chunks(span)).map(|(left, right)| vector::dot(left, right));
                    dots.zip(factors).map(|(dot, (a, b))| a * b * dot).sum()
                }
            };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::case::CaseError;

    fn problem(shape: &str) -> Result<Problem, CaseError> {
        parse_case(&format!("matmul_f8/fwd/{shape}/f16/naive")).map(|case| case.problem)
    }

    #[test]
    fn depths_are_whole_words_and_scales_are_of_tensors_unless_given() {
        let refused = problem("m1,n1,k6").expect_err("refused").to_string();
        assert!(refused.contains("not a multiple of 4"), "{refused}");
        for (shape, scales, lengths) in [
            ("m3,n130,k132", Scales::Tensor, [1, 1]),
            ("m3,n130,k132,row", Scales::Row, [3, 130]),
            ("m3,n130,k132,block", Scales::Block, [6, 4]),
        ] {
            let p = problem(shape).expect("valid");
            assert_eq!(Scales::of(&p.shape), scales);
            assert_eq!([A_SCALE, B_SCALE].map(|buffer| p.buffers()[buffer].len), lengths, "{shape}");
        }
    }

    #[test]
    fn the_reference_follows_the_definition() {
        for (scales, of_a, of_b) in [
            ("tensor", [0, 0], [0, 0]),
            ("row", [1, 1], [2, 2]),
            ("block", [2, 3], [0, 1]),
            ("block,e5m2", [2, 3], [0, 1]),
        ] {
            let p = problem(&format!("m2,n3,k132,{scales}")).expect("valid");
            let inputs = p.inputs(3);
            let mut out = [0.0; 3];
            reference(&p, &inputs, 1, &mut out);
            let number = |buffer, at: u64| {
                let numbers = if buffer == A { Numbers::of_a(&p.shape) } else { Numbers::of_b() };
                f64::from(numbers.decoded(inputs.at(buffer, at / 4) as u32)[(at % 4) as usize])
            };
            let term = |d: u64| {
                let part = (d / 128) as usize;
                let scales = inputs.at(A_SCALE, of_a[part]) * inputs.at(B_SCALE, of_b[part]);
                number(A, 132 + d) * number(B, 2 * 132 + d) * scales
            };
            let want: f64 = (0..132).map(term).sum();
            assert!((out[2] - want).abs() < 1e-9, "{scales}: {} {want}", out[2]);
        }
    }
}

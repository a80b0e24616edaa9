//! Copy: `out[i] = x[i]`.
//!
//! There is no arithmetic, so its speed is the bandwidth of the memory that holds the data. This is the device's ceiling for
//! kernels that read as much as they write. Bytes are counted as in STREAM's copy: read once, written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Finds, HostBuffer, Inputs, OfNan, OpSpec, Probe, Problem, Program, Reference, Role,
    Rows, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;
use parallax_schema::units::{Bytes, Flops};

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[
            // Each element is accessed twice, four bytes each.
            Probe { finds: Finds::Bandwidth, shape: |s| Some(format!("n{}", s.working_set / 8)), variants: &[] },
            Probe { finds: Finds::Dispatch, shape: |_| Some("n4".to_owned()), variants: &[] },
        ],
        about: "copy: how fast memory is",
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
                Reference::new(row_cost, rows),
                OfNan::Kept,
            )
            .headline("n16777216")
            .shapes(shapes)
            // The last is more than one pass of `stride` if the number of multiprocessors is unknown.
            .awkward(&["n1", "n3", "n4", "n7", "n8", "n1009", "n2051", "n5003", "n9437184"])
            .huge(&["n2148532224"])
            .host(host)
            .variants(vec![
                Variant::kernel("scalar", "one element per thread", scalar),
                Variant::kernel(
                    "vec4",
                    "16 bytes per thread in one access: fewer, wider requests for the same bytes",
                    vec4,
                ),
                Variant::kernel(
                    "stride",
                    "as many workgroups as the device holds, each going over the whole array in strides of the \
                 grid with four independent accesses of 16 bytes a turn: no cost of starting workgroups",
                    stride,
                ),
                Variant::cube("one source in CubeCL: accesses as those of `vec4`", cube),
            ])
            .fallback(&["stride", "vec4", "scalar"])
            .stress(stress_inputs()),
        ],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n16777216", "n67108864"],
        _ => &["n16777216", "n67108864", "n268435456"],
    }
}

/// Elements per compared row, if the length allows.
const ROW: u64 = 1 << 20;

/// Row length for checks: the one extent is cut into the longest rows of equal length.
pub(super) fn row_len(p: &Problem) -> u64 {
    1 << p["n"].trailing_zeros().min(ROW.trailing_zeros())
}

pub(super) fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let n = p["n"];
    let row_len = row_len(p);
    let out = BufferSpec { role: Role::Output { row_len }, ..BufferSpec::output("out", Elem::Real, &[n]) };
    vec![BufferSpec::input("x", Elem::Real, &[n], |_: &Shape, draw: Draw| draw.normal()), out]
}

pub(super) fn cost(p: &Problem) -> Cost {
    let bytes = Bytes(p["n"] * Elem::Real.storage(p.dtype).bytes());
    Cost { flops: Flops(0), read: bytes, written: bytes }
}

pub(crate) fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, exact);
    vec![
        set("zeros", "all zero", |_| vec![("x", zero)]),
        set("subnormal", "numbers too small to be normal: moved like any other, not flushed", |p| {
            vec![("x", subnormal(p))]
        }),
        set("huge", "the largest numbers of either sign", |p| {
            vec![(
                "x",
                match p.dtype {
                    DType::F16 => |_, draw| if draw.index.is_multiple_of(3) { -65_504.0 } else { 65_504.0 },
                    _ => |_, draw| if draw.index.is_multiple_of(3) { -3.38e38 } else { 3.38e38 },
                },
            )]
        }),
        set("not finite", "infinities and NaN among numbers: each arrives unchanged", |_| {
            vec![("x", |_, draw| match draw.index % 5 {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                2 => f64::NAN,
                _ => draw.normal(),
            })]
        }),
    ]
}

pub(super) fn row_cost(p: &Problem, _output: usize) -> u64 {
    row_len(p)
}

pub(super) fn rows<'a>(_p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    Box::new(move |_, row, out| {
        let first = row * out.len() as u64;
        for (i, slot) in out.iter_mut().enumerate() {
            *slot = inputs.at(X, first + i as u64);
        }
    })
}

pub(super) fn host(_p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    const PIECE: usize = 1 << 16;
    let pieces = inputs[X].f32().par_chunks(PIECE);
    outputs[0].par_chunks_mut(PIECE).zip(pieces).for_each(|(to, from)| to.copy_from_slice(from));
}

pub(super) fn tolerance(_p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 2f64.powi(-150),
        rel: 0.0,
        reason: "a copy is exact: the bound is half the smallest difference between two f32 numbers",
    }
}

/// Threads of a workgroup.
const THREADS: u64 = 256;
/// Accesses of 16 bytes that a thread of `stride` makes at a time.
const AT_ONCE: u64 = 4;
/// Workgroups of `stride`: per multiprocessor, and in total for a device that reports no number.
const GROUPS_PER_UNIT: u64 = 16;
const GROUPS: u64 = 2048;

/// Number of 16-byte vectors; the last may be partial.
fn vectors(p: &Problem) -> u64 {
    (p["n"] * Elem::Real.storage(p.dtype).bytes()).div_ceil(16)
}

fn program(
    p: &Problem,
    text: &'static str,
    entry: &'static str,
    groups: u64,
    consts: &[(&'static str, u64)],
) -> Program {
    let small = |(name, value): &(&'static str, u64)| (*name, *value as u32);
    Stage::kernel(entry, text, entry)
        .consts(&[("N", p["n"]), ("THREADS", THREADS)].each_ref().map(small))
        .consts(&consts.iter().map(small).collect::<Vec<_>>())
        .args([("x", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(groups))
        .cost(cost(p))
        .into()
}

fn scalar(p: &Problem, _caps: &Caps) -> Program {
    program(p, "copy/scalar", "copy_scalar", p["n"].div_ceil(THREADS), &[])
}

fn vec4(p: &Problem, _caps: &Caps) -> Program {
    program(p, "copy/vec4", "copy_vec4", vectors(p).div_ceil(THREADS), &[("VECTORS", vectors(p))])
}

fn stride(p: &Problem, caps: &Caps) -> Program {
    let held = caps.compute_units.map_or(GROUPS, |units| u64::from(units) * GROUPS_PER_UNIT);
    let groups = held.min(vectors(p).div_ceil(THREADS * AT_ONCE));
    let consts = [("VECTORS", vectors(p)), ("STRIDE", groups * THREADS)];
    program(p, "copy/stride", "copy_stride", groups, &consts)
}

/// Program in CubeCL. A copy of whole words serves every element type.
fn cube(p: &Problem, _caps: &Caps) -> Program {
    let bytes = p["n"] * Elem::Real.storage(p.dtype).bytes();
    let (words, width, pieces) = match bytes {
        _ if bytes.is_multiple_of(16) => (true, 4, bytes / 16),
        _ if bytes.is_multiple_of(4) => (true, 1, bytes / 4),
        _ => (false, 1, p["n"]),
    };
    Stage::cube_over("cube_copy", pieces)
        .consts(&[("WIDTH", width)])
        .consts(&[("WORDS", words)])
        .args([("x", Read), ("out", Write)])
        .cost(cost(p))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::caps;

    fn groups(case: &str, caps: &Caps) -> u32 {
        let case = parse_case(case).expect("valid");
        case.program(caps).expect("a program").kernels().next().expect("a kernel").grid.iter().product()
    }

    #[test]
    fn strides_start_as_many_workgroups_as_the_device_holds_and_no_more_than_it_needs() {
        let known = Caps { compute_units: Some(132), ..caps() };
        assert_eq!(groups("copy/fwd/n16777216/f32/stride", &known), 132 * 16);
        assert_eq!(groups("copy/fwd/n16777216/f32/stride", &caps()), 2048);
        assert_eq!(groups("copy/fwd/n65537/f32/stride", &known), 17);
        assert_eq!(groups("copy/fwd/n1/f16/stride", &known), 1);
    }

    #[test]
    fn rows_divide_the_array() {
        for n in [1, 7, 8, 1009, 3 << 20, 1 << 28] {
            let p =
                Problem::new(crate::find("copy").expect("registered"), Direction::Fwd, &format!("n{n}"), DType::F32);
            let Role::Output { row_len } = buffers(&p.expect("valid"))[1].role else { panic!("an output") };
            assert!(n % row_len == 0 && row_len <= ROW, "{n}: {row_len}");
        }
    }
}

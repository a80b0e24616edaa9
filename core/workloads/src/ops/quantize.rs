//! Numbers rounded to codes of 8 bits, with a scale for each group of neighbours along a row.
//!
//! `x` is `[r, c]`. Each `g` neighbours of a row have a scale, a power of two, so that `x ≈ code · scale`. The formats are those of
//! the Open Compute Project ("OCP Microscaling Formats (MX)", 2023; "OFP8", 2023): `e4m3` up to 448, `e5m2` up to 57 344, and `int8`
//! from −127 to 127. A 32-bit word has the codes of four neighbours, the first in its lowest bits.
//!
//! The scale is the least power of two from 2⁻¹⁰⁰ on by which no code saturates. Codes are the nearest, halves to even, and keep the
//! sign of zero. A group with NaN or an infinity has the scale NaN and codes of zero: as in MX, all of its values are NaN.
//!
//! Scales are powers of two, so every step is exact, and results are equal bit by bit. Operations: a maximum and a product for each
//! element. Bytes: `x` read once, codes and scales written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, scattered_nan, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage,
    StressInput, Variant, Workload, indexable, spread, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::codes::{Format, PACKED};

const X: usize = 0;
/// Indices of the outputs.
const CODES: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "numbers rounded to 8 bits, with scales of groups",
        axes: const {
            &[
                Axis::extent("r", "rows"),
                Axis::extent("c", "columns, a multiple of 4"),
                Axis::optional("g", "neighbours with one scale, a multiple of 4", PACKED, 128),
                Axis::word("format", "codes of 8 bits", &["e4m3", "e5m2", "int8"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![
            OpSpec::new(
                Direction::Fwd,
                Rate::Bytes,
                buffers,
                |p| {
                    let elements = p["r"] * p["c"];
                    let read = elements * Elem::Real.storage(p.dtype).bytes();
                    Cost::new(2 * elements, read, elements + p["r"] * groups(p) * 4)
                },
                exact,
                Reference::new(
                    |p, _| p["c"],
                    |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
                ),
                OfNan::Kept,
            )
            .headline("r8192,c4096,e4m3")
            .shapes(shapes)
            // One word; groups of several threads and of one; a last group that is shorter; groups longer than the threads of a
            // workgroup, and than any variant holds.
            .awkward(&[
                "r1,c4,e4m3",
                "r3,c20,g4,int8",
                "r2,c136,e5m2",
                "r5,c260,g32,e4m3",
                "r7,c96,g8,int8",
                "r2,c1160,g1160,e4m3",
                "r1,c6000,g5000,e5m2",
                "r129,c64,g16,e4m3",
                "r1,c70000,g70000,int8",
                "r3,c4096,g4096,e5m2",
            ])
            .huge(&["r65552,c32768,g32,e4m3"])
            .host(host)
            .variants(vec![
                Variant::kernel("naive", "a group per thread, which reads it twice", naive),
                Variant::kernel(
                    "held",
                    "neighbouring threads share a group: they hold its numbers as vectors until the scale is known",
                    held,
                )
                .available(held_available),
            ])
            .fallback(&["held", "naive"])
            .stress(stress_inputs()),
        ],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    for (name, extent) in [("a row", shape["c"]), ("a group", shape["g"])] {
        if !extent.is_multiple_of(PACKED) {
            return Err(format!("four codes are packed in a word: {name} of {extent} is not a multiple of 4"));
        }
    }
    indexable(shape["r"] * shape["c"])
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r8192,c4096,e4m3", "r8192,c4096,g4096,int8"],
        _ => &[
            "r8192,c4096,e4m3",
            "r8192,c4096,g32,e4m3",
            "r8192,c4096,g4096,int8",
            "r16384,c8192,e5m2",
            "r64,c4096,e4m3",
        ],
    }
}

/// Groups of a row.
fn groups(p: &Problem) -> u64 {
    p["c"].div_ceil(p["g"])
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (r, c) = (p["r"], p["c"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[r, c], in_range),
        BufferSpec::output("codes", Elem::U32, &[r, c / PACKED]),
        BufferSpec::output("scale", Elem::F32, &[r, groups(p)]),
    ]
}

/// Normal number. Those below 2⁻¹² are zero: a device may flush subnormal numbers of 16 bits.
fn in_range(_: &Shape, draw: Draw) -> f64 {
    let x = draw.normal();
    if x.abs() < 2f64.powi(-12) { 0.0 } else { x }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, exact);
    vec![
        set("zeros", "all zero: the least scale", |_| vec![("x", zero)]),
        set("equal", "all one: one power of two, and one code", |_| vec![("x", one)]),
        set("nan", "NaN at every seventh element: scales of NaN, and codes of zero", |_| vec![("x", scattered_nan)]),
        set("infinite", "infinities in some groups: as NaN", |_| {
            vec![("x", |shape, draw| {
                let sparse = draw.index % (3 * shape["g"] + 1) == 2;
                if sparse { f64::INFINITY.copysign(draw.normal()) } else { in_range(shape, draw) }
            })]
        }),
        set("halves", "numbers half way between two codes, and signed zeros", |_| vec![("x", halves)]),
        set("steps", "largest numbers just at and above those where the scale doubles", |_| vec![("x", steps)]),
        set("far", "numbers of all magnitudes in each group: most codes are zero or subnormal", |_| {
            vec![("x", |_, draw| 2f64.powi((draw.bits() % 24) as i32 - 12).copysign(draw.normal()))]
        }),
        set("ends", "numbers from 1e-30 to 1e30, alike within a group", |_| {
            vec![("x", |shape, draw| {
                let group = draw.index / shape["g"];
                in_range(shape, draw) * 2f64.powi(((group * 37) % 200) as i32 - 100)
            })]
        })
        .applies(wide),
    ]
}

/// Multiples of 1/16 up to 8 with both signs, and the largest in each group that makes them halves of steps of a format.
fn halves(_: &Shape, draw: Draw) -> f64 {
    let eighth = (draw.bits() % 129) as f64 / 16.0;
    if draw.index.is_multiple_of(4) { 127.0 } else { eighth.copysign(draw.normal()) }
}

/// 1.75 and its neighbours in 8 bits of mantissa, times a power of two for each group.
fn steps(shape: &Shape, draw: Draw) -> f64 {
    let group = draw.index / shape["g"];
    let top = [1.75, 1.7421875, 1.7578125, 1.984375, 1.9921875, 1.0][(group % 6) as usize];
    let power = 2f64.powi((group % 9) as i32 - 4);
    if draw.bits().is_multiple_of(3) { top * power } else { (draw.uniform() * power * 64.0).floor() / 64.0 }
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let (c, format) = (p["c"], Format::of(p));
    let numbers = inputs.values(X, row * c..(row + 1) * c);
    for (group, numbers) in numbers.chunks(p["g"] as usize).enumerate() {
        let scale = format.scale(numbers);
        if output != CODES {
            out[group] = scale;
            continue;
        }
        let words = &mut out[group * (p["g"] / PACKED) as usize..];
        words.iter_mut().zip(format.words(numbers, scale)).for_each(|(word, found)| *word = found);
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (c, g, format) = (p["c"] as usize, p["g"] as usize, Format::of(p));
    let [codes, scales] = outputs else { unreachable!("two outputs") };
    let rows = codes.par_chunks_mut(c / 4).zip(scales.par_chunks_mut(groups(p) as usize));
    rows.zip(inputs[X].f32().par_chunks(c)).for_each(|((codes, scales), numbers)| {
        for ((codes, scale), numbers) in codes.chunks_mut(g / 4).zip(scales).zip(numbers.chunks(g)) {
            *scale = format.round(numbers, codes);
        }
    });
}

/// Program of one stage with the extents and the format as constants.
fn program(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    let numbers = [("ROWS", p["r"]), ("C", p["c"]), ("G", p["g"]), ("GROUPS", groups(p))];
    let stage = Stage::kernel(entry, text, entry).consts(&numbers.map(|(name, value)| (name, value as u32)));
    Format::of(p).stage(stage).args([("x", Read), ("codes", Write), ("scale", Write)]).cost(p.cost())
}

/// Threads of a workgroup.
const THREADS: u32 = 256;
/// Most vectors that a thread holds.
const MOST_HELD: u64 = 16;

fn naive(p: &Problem, _caps: &Caps) -> Program {
    program(p, "quantize/naive", "quantize_naive")
        .consts(&[("THREADS", THREADS)])
        .threads([THREADS, 1, 1])
        .grid(spread((p["r"] * groups(p)).div_ceil(u64::from(THREADS))))
        .into()
}

/// Neighbours of a vector: whole words of codes, and whole vectors in rows and groups.
fn vector(p: &Problem, caps: &Caps) -> u64 {
    let both = 1 << p["c"].trailing_zeros().min(p["g"].trailing_zeros());
    width(both, p.dtype, caps)
}

/// Threads that share a group, a power of two, and vectors that each holds.
fn share(p: &Problem, caps: &Caps) -> (u64, u64) {
    let vectors = p["g"].min(p["c"]).div_ceil(vector(p, caps));
    // Two loads of a thread are under way where the vectors are short.
    let each = if vector(p, caps) == 8 { 1 } else { 2 };
    let lanes = vectors.div_ceil(each).next_power_of_two().min(u64::from(THREADS));
    (lanes, vectors.div_ceil(lanes))
}

fn held_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    match share(p, caps) {
        (_, held) if held <= MOST_HELD => Ok(()),
        _ => Err(format!("held keeps a group in registers: {} numbers are too many for {THREADS} threads", p["g"])),
    }
}

fn held(p: &Problem, caps: &Caps) -> Program {
    let (lanes, held) = share(p, caps);
    let in_workgroup = u64::from(THREADS) / lanes;
    let numbers = [("WIDTH", vector(p, caps)), ("LANES", lanes), ("HELD", held), ("THREADS", u64::from(THREADS))];
    program(p, "quantize/held", "quantize_held")
        .consts(&numbers.map(|(name, value)| (name, value as u32)))
        .threads([THREADS, 1, 1])
        .grid(spread((p["r"] * groups(p)).div_ceil(in_workgroup)))
        // Largest magnitudes of the groups; in CUDA of the warps.
        .shared(4 * if caps.dialect == Dialect::Wgsl { in_workgroup as u32 } else { THREADS / 32 })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("quantize/fwd/{shape}/bf16/naive")).expect("valid").problem
    }

    #[test]
    fn threads_share_a_group_as_vectors() {
        for (shape, caps, want) in [
            ("r1,c4096,e4m3", &hopper(), (16, 1)),
            ("r1,c4096,e4m3", &caps(), (16, 2)),
            ("r1,c4096,g4096,e4m3", &hopper(), (256, 2)),
            ("r1,c20,g4,e4m3", &hopper(), (1, 1)),
            ("r1,c1160,g1160,e4m3", &hopper(), (256, 1)),
        ] {
            assert_eq!(share(&problem(shape), caps), want, "{shape}");
        }
        let long = problem("r1,c70000,g70000,int8");
        assert!(held_available(&long, &hopper()).is_err_and(|why| why.contains("70000")));
        let refused = parse_case("quantize/fwd/r1,c6,e4m3/f32/naive").expect_err("refused").to_string();
        assert!(refused.contains("multiple of 4"), "{refused}");
    }
}

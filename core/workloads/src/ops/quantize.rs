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

use crate::minifloat::{E4M3, E5M2, Minifloat};

const X: usize = 0;
/// Indices of the outputs.
const CODES: usize = 0;

/// Codes in a word.
const PACKED: u64 = 4;
/// Exponent of the least scale.
const LEAST: i32 = -100;

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

/// A format of 8 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Format {
    /// The float format; `None` for whole numbers.
    float: Option<Minifloat>,
    /// Largest number.
    most: f64,
}

impl Format {
    fn of(p: &Problem) -> Format {
        if p.shape.has("int8") {
            Format { float: None, most: 127.0 }
        } else if p.shape.has("e5m2") {
            Format { float: Some(E5M2), most: E5M2.most }
        } else {
            Format { float: Some(E4M3), most: E4M3.most }
        }
    }

    /// Exponent of the scale for a largest magnitude.
    fn exponent(self, largest: f64) -> i32 {
        (LEAST..).find(|k| self.most * 2f64.powi(*k) >= largest).expect("a power of two")
    }

    /// Code of a number within the range.
    fn code(self, x: f64) -> u8 {
        match self.float {
            Some(float) => float.code(x),
            None => x.round_ties_even() as i8 as u8,
        }
    }
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let (c, format) = (p["c"], Format::of(p));
    let numbers = inputs.values(X, row * c..(row + 1) * c);
    for (group, numbers) in numbers.chunks(p["g"] as usize).enumerate() {
        let finite = numbers.iter().all(|x| x.is_finite());
        let largest = numbers.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        let scale = if finite { 2f64.powi(format.exponent(largest)) } else { f64::NAN };
        if output != CODES {
            out[group] = scale;
            continue;
        }
        let words = &mut out[group * (p["g"] / PACKED) as usize..];
        for (word, four) in words.iter_mut().zip(numbers.chunks_exact(PACKED as usize)) {
            let code = |x: &f64| if finite { format.code(x / scale) } else { 0 };
            *word = f64::from(four.iter().rev().fold(0u32, |word, x| word << 8 | u32::from(code(x))));
        }
    }
}

/// Scale of a group by the bits of its largest magnitude, or `None` where a number is not finite.
fn scale_of(bits: u32, most: f32) -> Option<f32> {
    if bits >= f32::INFINITY.to_bits() {
        return None;
    }
    // Both are a mantissa times a power of two: the exponents are subtracted, and one is added if the group's mantissa is larger.
    let (of, mantissa) = ((bits >> 23) as i32, 0x7F_FFFF);
    let above = i32::from(bits & mantissa > most.to_bits() & mantissa);
    let exponent = (of - (most.to_bits() >> 23) as i32 + above).max(LEAST);
    Some(f32::from_bits(((exponent + 127) as u32) << 23))
}

/// Code of a float format by the bits of a number within its range.
fn code_of(x: f32, mantissa: u32, bias: i32) -> u32 {
    let (size, sign) = (x.abs(), x.to_bits() >> 24 & 0x80);
    let least_normal = f32::from_bits(((128 - bias) as u32) << 23);
    if size < least_normal {
        return sign | (size * f32::from_bits(((126 + bias + mantissa as i32) as u32) << 23)).round_ties_even() as u32;
    }
    let dropped = 23 - mantissa;
    let bits = size.to_bits();
    let rounded = bits + (1 << (dropped - 1)) - 1 + (bits >> dropped & 1);
    sign | ((rounded >> dropped) - (((127 - bias) as u32) << mantissa))
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (c, g, format) = (p["c"] as usize, p["g"] as usize, Format::of(p));
    let [codes, scales] = outputs else { unreachable!("two outputs") };
    let rows = codes.par_chunks_mut(c / 4).zip(scales.par_chunks_mut(groups(p) as usize));
    rows.zip(inputs[X].f32().par_chunks(c)).for_each(|((codes, scales), numbers)| {
        for ((codes, scale), numbers) in codes.chunks_mut(g / 4).zip(scales).zip(numbers.chunks(g)) {
            let largest = numbers.iter().fold(0, |largest, x| (x.to_bits() & 0x7FFF_FFFF).max(largest));
            let Some(found) = scale_of(largest, format.most as f32) else {
                *scale = f32::NAN;
                codes.fill(0.0);
                continue;
            };
            *scale = found;
            let inverse = 1.0 / found;
            for (word, four) in codes.iter_mut().zip(numbers.chunks_exact(4)) {
                let code = |x: &f32| match format.float {
                    Some(Minifloat { mantissa, bias, .. }) => code_of(x * inverse, mantissa, bias),
                    None => (x * inverse).round_ties_even() as i32 as u32 & 0xFF,
                };
                *word = f32::from_bits(four.iter().rev().fold(0, |word, x| word << 8 | code(x)));
            }
        }
    });
}

/// Program of one stage with the extents and the format as constants.
fn program(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    let format = Format::of(p);
    let (mantissa, bias) = format.float.map_or((0, 0), |float| (float.mantissa, float.bias));
    let most = (format.most as f32).to_bits();
    let numbers = [("ROWS", p["r"]), ("C", p["c"]), ("G", p["g"]), ("GROUPS", groups(p))];
    Stage::kernel(entry, text, entry)
        .consts(&numbers.map(|(name, value)| (name, value as u32)))
        .consts(&[("WHOLE_NUMBERS", format.float.is_none())])
        .consts(&[
            ("MANTISSA", mantissa),
            ("BIAS", bias as u32),
            ("MOST_BITS", most),
            ("LEAST_SCALE", (127 + LEAST) as u32),
        ])
        .args([("x", Read), ("codes", Write), ("scale", Write)])
        .cost(p.cost())
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

    /// Number of a code.
    fn decoded(code: u8, mantissa: u32, bias: i32) -> f64 {
        let (exponent, steps) = (i32::from(code & 0x7F) >> mantissa, i32::from(code) & ((1 << mantissa) - 1));
        let steps = if exponent == 0 { steps } else { steps + (1 << mantissa) };
        let size = f64::from(steps) * 2f64.powi(exponent.max(1) - bias - mantissa as i32);
        if code & 0x80 != 0 { -size } else { size }
    }

    #[test]
    fn codes_are_those_of_the_formats() {
        let e4m3 = Format::of(&problem("r1,c4,e4m3"));
        for (x, code) in [
            (0.0, 0),
            (-0.0, 0x80),
            (448.0, 0x7E),
            (1.0, 0x38),
            (-1.5, 0xBC),
            (2f64.powi(-6), 0x08),
            (2f64.powi(-9), 1),
            (2f64.powi(-10), 0),
            (3.0 * 2f64.powi(-10), 2),
            (1.0625, 0x38),
            (1.1875, 0x3A),
            (0.99, 0x38),
        ] {
            assert_eq!(e4m3.code(x), code, "{x}");
        }
        let e5m2 = Format::of(&problem("r1,c4,e5m2"));
        assert_eq!([57_344.0, 1.0, 2f64.powi(-16), 2f64.powi(-14)].map(|x| e5m2.code(x)), [0x7B, 0x3C, 1, 4]);
        let int8 = Format::of(&problem("r1,c4,int8"));
        assert_eq!([127.0, -127.0, 0.5, 1.5, -0.4].map(|x| int8.code(x)), [127, 0x81, 0, 2, 0]);
    }

    #[test]
    fn each_code_is_the_nearest_by_either_way() {
        for format in [E4M3, E5M2] {
            let Minifloat { mantissa, bias, most } = format;
            for code in (0..=255).filter(|code| decoded(*code, mantissa, bias).abs() <= most) {
                let x = decoded(code, mantissa, bias);
                assert_eq!(format.code(x), code, "{x}");
                for near in
                    [x, x * 1.03, x * 0.97, x + 2f64.powi(-12)].map(|x| (x as f32).clamp(-most as f32, most as f32))
                {
                    assert_eq!(u32::from(format.code(f64::from(near))), code_of(near, mantissa, bias), "{near}");
                }
            }
        }
    }

    #[test]
    fn a_scale_is_the_least_by_which_no_code_saturates() {
        for format in ["e4m3", "e5m2", "int8"].map(|word| Format::of(&problem(&format!("r1,c4,{word}")))) {
            for largest in [0.0, 1.0, 1.75, 1.7578125, 1.984375, 1.9921875, 448.0, 449.0, 1e-38, 1e-30, 3e38] {
                let exponent = format.exponent(f64::from(largest));
                let found = scale_of(f32::to_bits(largest), format.most as f32).expect("finite");
                assert_eq!(f64::from(found), 2f64.powi(exponent), "{largest} in {format:?}");
            }
            assert_eq!([f32::INFINITY, f32::NAN].map(|x| scale_of(x.to_bits(), format.most as f32)), [None; 2]);
        }
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

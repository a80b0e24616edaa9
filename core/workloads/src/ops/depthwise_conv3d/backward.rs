//! Backward directions of `depthwise_conv2d` and `depthwise_conv3d`: gradients of `x` and `w` for a gradient `dout` of the result.
//!
//! `dx` at a position sums, over the taps, `w` times `dout` of the output element with that tap on the position. `dw` of a tap
//! sums, over all output elements, `dout` times the element of `x` under the tap. With `bias`, `dbias` is the sum of `dout` of each
//! channel. With `relu`, `dout` counts only for results above zero. The result is an input, from the forward pass.
//!
//! Operations: `4·kd·k·kw` per element of the result, and one more for each of bias and ReLU.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, no_gradient, one, smallest_normal};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Stage, StressInput, Tolerance,
    Tunable, Variant, normal, spread, sum_of_parts,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use super::super::linear::backward::by_element as each_element;
use super::gradient_stages::{a_workgroup, bias_gradient, masked, sizes, word};
use super::marching::{Finish, Share};
use super::volume::Volume;
use super::{by_element, marching, vendor};
use crate::real::gated;

const X: usize = 0;
const W: usize = 1;
const DOUT: usize = 2;
/// Index of the forward pass's result, if the shape has ReLU.
const OUT: usize = 3;

/// Specification of the backward direction of a workload with these shapes.
pub(crate) fn form(
    headline: &'static str,
    shapes: fn(Preset) -> &'static [&'static str],
    awkward: &'static [&'static str],
    tunables: &'static [Tunable],
) -> OpSpec {
    let mut form = OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, output| {
                let v = Volume::new(&p.shape);
                match output {
                    DX => v.taps() * v.row(v.image),
                    _ => terms(&v),
                }
            },
            |p, inputs| Box::new(move |output, row, out| reference(p, inputs, (output, row), out)),
        ),
        OfNan::MIXED,
    )
    .headline(headline)
    .shapes(shapes)
    .awkward(awkward)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "direct",
            "one element of dx per thread, and one workgroup for each tap of a channel, which goes over everything",
            direct,
        ),
        Variant::kernel(
            marching::NAME,
            "dx as the forward pass with the filter reversed (where the stride is one; otherwise as `direct` does); for dw \
             threads march with the taps' sums and the gradients of a few slices in registers, and leave parts that a second \
             stage adds up, always in the same order",
            marched,
        )
        .available(|p, _| marching::available(&Volume::new(&p.shape)))
        .tunables(tunables),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&[marching::NAME, "direct"])
    .stress(stress_inputs());
    form.variants.extend(vendor::backward());
    form
}

/// Indices of the checked buffers, in buffer order.
const DX: usize = 0;
const DW: usize = 1;

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let v = Volume::new(&p.shape);
    let (image, out, filter) = (v.dims(v.image), v.dims(v.out), v.filter_dims());
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &image, normal),
        BufferSpec::input("w", Elem::Real, &filter, normal),
        BufferSpec::input("dout", Elem::Real, &out, normal),
    ];
    if word(p, "relu") {
        buffers.push(BufferSpec::input("out", Elem::Real, &out, normal));
    }
    buffers.extend([BufferSpec::output("dx", Elem::Real, &image), each_element("dw", &filter)]);
    if word(p, "bias") {
        buffers.push(each_element("dbias", &[v.c]));
    }
    if word(p, "relu") {
        buffers.push(BufferSpec::scratch("dpre", Elem::Real, &out));
    }
    buffers.push(BufferSpec::scratch("parts", Elem::F32, &[most_parts(&v), part_columns(p, &v)]));
    buffers.extend(vendor::turned_kernels(p));
    buffers.extend(vendor::turned_gradient(p));
    buffers
}

/// Number of terms of the gradient of a tap.
fn terms(v: &Volume) -> u64 {
    v.n * v.out.iter().product::<u64>()
}

fn cost(p: &Problem) -> Cost {
    let v = Volume::new(&p.shape);
    let element = Elem::Real.storage(p.dtype).bytes();
    let ([image, out], filter) = (v.elements(), v.c * v.taps());
    let [bias, relu] = ["bias", "relu"].map(|name| u64::from(word(p, name)));
    let (read, written) = (image + filter + (1 + relu) * out, image + filter + bias * v.c);
    Cost::new((4 * v.taps() + bias + relu) * out, read * element, written * element)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    let v = Volume::new(&p.shape);
    let (taps, terms, f32u) = (v.taps() as f64, terms(&v) as f64, 2f64.powi(-24));
    let rel = 2.0 * p.dtype.unit_roundoff();
    match output {
        DX => Tolerance {
            abs: taps * 3.47 * 3.47 * taps * f32u + smallest_normal(p),
            rel,
            reason: "products of values of at most 3.47 are summed in f32 (n·u times the sum of magnitudes), and the result is \
                     rounded once to the element type",
        },
        _ => Tolerance {
            abs: 8.0 * f32u * (terms + 16.0) + smallest_normal(p),
            rel,
            reason: "terms of random sign, of size one, are summed in f32: the sum wanders by the root of their number, and so \
                     does its rounding at each step; the result is rounded once",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        no_gradient(exact),
        StressInput::new(
            "equal",
            "all one: counts of the taps that fall on an element, and of the elements under a tap",
            |p| {
                let out = word(p, "relu").then_some(("out", one as parallax_ir::Fill));
                [("x", one as parallax_ir::Fill), ("w", one), ("dout", one)].into_iter().chain(out).collect()
            },
            |p, _| Tolerance {
                abs: 0.0,
                rel: 2.0 * p.dtype.unit_roundoff(),
                reason: "sums of ones are exact in f32 below 2^24, and rounded once to the element type",
            },
        ),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, (output, row): (usize, u64), out: &mut [f64]) {
    let v = Volume::new(&p.shape);
    let gradient = |at: u64| {
        let dout = inputs.at(DOUT, at);
        if word(p, "relu") { gated(inputs.at(OUT, at), dout) } else { dout }
    };
    if output == DX {
        for (lane, slot) in (0..).zip(out) {
            let (n, c, place) = v.place(v.image, row, lane);
            *slot = 0.0;
            for tap in v.each_tap() {
                if let Some(over) = v.output_position(place, tap) {
                    *slot += gradient(v.at(v.out, (n, c, over))) * inputs.at(W, v.tap_at(c, tap));
                }
            }
        }
        return;
    }
    let (c, tap) = match (output == DW, v.channels_last) {
        (false, _) => (row, None),
        (true, true) => (row % v.c, v.each_tap().nth((row / v.c) as usize)),
        (true, false) => (row / v.taps(), v.each_tap().nth((row % v.taps()) as usize)),
    };
    out[0] = 0.0;
    let [d, h, w] = v.out;
    for n in 0..v.n {
        for at in 0..d * h * w {
            let place = [at / (h * w), at / w % h, at % w];
            let value = match tap.map(|tap| v.input_position(place, tap)) {
                None => 1.0,
                Some(None) => continue,
                Some(Some(under)) => inputs.at(X, v.at(v.image, (n, c, under))),
            };
            out[0] += gradient(v.at(v.out, (n, c, place))) * value;
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let v = Volume::new(&p.shape);
    let (x, w) = (inputs[X].f32(), inputs[W].f32());
    let dout = inputs[DOUT].f32();
    let result = word(p, "relu").then(|| inputs[OUT].f32());
    let gradient = |at: u64| {
        let (at, dout) = (at as usize, dout[at as usize]);
        result.map_or(dout, |result| gated(result[at], dout))
    };
    let row = v.row(v.image);
    outputs[DX].par_chunks_mut(row as usize).enumerate().for_each(|(line, dx)| {
        for (lane, slot) in (0..).zip(dx) {
            let (n, c, place) = v.place(v.image, line as u64, lane);
            let term = |tap| {
                let over = v.output_position(place, tap)?;
                Some(gradient(v.at(v.out, (n, c, over))) * w[v.tap_at(c, tap) as usize])
            };
            *slot = v.each_tap().filter_map(term).sum();
        }
    });
    let [d, h, width] = v.out;
    // Lines are summed separately, so that long sums keep their last digits.
    let lines = |c: u64, value: &(dyn Fn(u64, [u64; 3]) -> Option<f32> + Sync)| -> f32 {
        let line = |line: u64| {
            let (n, z, y) = (line / (d * h), line / h % d, line % h);
            let term = |at| Some(gradient(v.at(v.out, (n, c, [z, y, at]))) * value(n, [z, y, at])?);
            (0..width).filter_map(term).sum::<f32>()
        };
        (0..v.n * d * h).map(line).sum()
    };
    let taps: Vec<[u64; 3]> = v.each_tap().collect();
    outputs[DW].par_iter_mut().enumerate().for_each(|(at, dw)| {
        let (c, tap) = match v.channels_last {
            true => (at as u64 % v.c, taps[at / v.c as usize]),
            false => ((at / taps.len()) as u64, taps[at % taps.len()]),
        };
        *dw = lines(c, &|n, place| Some(x[v.at(v.image, (n, c, v.input_position(place, tap)?)) as usize]));
    });
    if let Some(dbias) = outputs.get_mut(DW + 1) {
        dbias.par_iter_mut().enumerate().for_each(|(c, dbias)| *dbias = lines(c as u64, &|_, _| Some(1.0)));
    }
}

/// Stage with one thread per element of the image's gradient.
fn of_image(p: &Problem, v: &Volume, dout: &'static str) -> Stage {
    let ([elements, out], [image, result, filter]) = (v.elements(), sizes(p, v));
    by_element(p, elements, "depthwise_conv3d/gradient", "depthwise_gradient")
        .args([("dout", dout, Read), ("w", "w", Read), ("dx", "dx", Write)])
        .cost(Cost::new(2 * v.taps() * out, result + filter, image))
}

fn direct(p: &Problem, caps: &Caps) -> Program {
    let v = Volume::new(&p.shape);
    let ([image, result, filter], [_, out]) = (sizes(p, &v), v.elements());
    let (dout, mask) = masked(p, caps);
    let filters = a_workgroup(p, v.c * v.taps(), "depthwise_filter_direct")
        .args([("x", "x", Read), ("dout", dout, Read), ("dw", "dw", Write)])
        .cost(Cost::new(2 * v.taps() * out, image + result, filter));
    let stages = mask.into_iter().chain([of_image(p, &v, dout), filters]).chain(bias_gradient(p, &v, dout));
    Program { stages: stages.collect() }
}

/// Largest number of parts of the filters' gradient, on any device. It limits all parts to a few megabytes.
fn most_parts(v: &Volume) -> u64 {
    let fitting = (1u64 << 20) / v.c.saturating_mul(v.taps() + 1).max(1);
    fitting.clamp(16, 1024).min(terms(v))
}

/// Approximate number of workgroups of that stage: enough for any device.
const WORKGROUPS: u64 = 2048;
/// Adjacent channels, or pieces of channels, of a workgroup.
const SIDE_BY_SIDE: u64 = 32;

/// Elements of a part: the gradients of the filters, and those of the bias.
fn part_columns(p: &Problem, v: &Volume) -> u64 {
    v.c * (v.taps() + u64::from(word(p, "bias")))
}

fn marched(p: &Problem, caps: &Caps) -> Program {
    let v = Volume::new(&p.shape);
    let (dout, mask) = masked(p, caps);
    let transposed = v.transposed();
    let whole = v.stride == [1; 3] && marching::available(&transposed).is_ok();
    let dx = match whole {
        true => {
            let finish = Finish { flip: true, ..Finish::default() };
            let ([image, result, filter], [_, out]) = (sizes(p, &v), v.elements());
            let cost = Cost::new(2 * v.taps() * out, result + filter, image);
            marching::stage(&transposed, p, caps, finish, [dout, "dx"]).label("depthwise_gradient").cost(cost)
        }
        false => of_image(p, &v, dout),
    };
    Program { stages: mask.into_iter().chain([dx]).chain(filters(p, &v, caps, dout)).collect() }
}

/// Both stages of the gradients of the filters and of the bias.
fn filters(p: &Problem, v: &Volume, caps: &Caps, dout: &'static str) -> [Stage; 2] {
    let share = Share::new(v, p, caps, v.taps());
    let beside = share.channels.next_power_of_two().min(SIDE_BY_SIDE);
    let groups = if v.channels_last { share.channels.div_ceil(beside) } else { v.c };
    let walks = share.walks(v.n);
    let parts = WORKGROUPS.div_ceil(groups).min(most_parts(v)).min(walks.div_ceil(marching::THREADS / beside));
    let biased = word(p, "bias");
    let columns = part_columns(p, v);
    let lanes = if v.channels_last { share.width } else { 1 };
    let ([image, result, _], [_, out]) = (sizes(p, v), v.elements());
    let consts =
        [("WALKS", walks), ("BESIDE", beside), ("GROUPS", groups), ("PARTS", parts), ("PART_COLUMNS", columns)];
    let text = marching::text(&share, v, caps, TEXTS);
    let sums = Stage::kernel("depthwise_filter", text, "depthwise_filter")
        .consts(&share.consts(v, p, caps))
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("CHANNELS_LAST", v.channels_last), ("BIASED", biased)])
        .args([("x", "x", Read), ("dout", dout, Read), ("parts", "parts", Write)])
        .threads([marching::THREADS as u32, 1, 1])
        .grid(spread(parts * groups))
        .shared((marching::THREADS * lanes * 4) as u32)
        .cost(Cost::new((2 * v.taps() + u64::from(biased)) * out, image + result, parts * columns * 4));
    let bias = biased.then_some(("dbias", Write));
    let total = sum_of_parts(parts, columns, caps, "depthwise_conv3d/filter_parts", "depthwise_filter_parts")
        .consts(&[("FILTERS", (v.c * v.taps()) as u32)])
        .consts(&[("BIASED", biased)])
        .args([("parts", Read), ("dw", Write)].into_iter().chain(bias));
    [sums, total]
}

/// Kernel sources, as for `marching`. In WGSL a thread has the sums of one channel.
const TEXTS: [&str; 4] = [
    "depthwise_conv3d/filter",
    "depthwise_conv3d/filter_single",
    "depthwise_conv3d/filter_single",
    "depthwise_conv3d/filter_columns",
];

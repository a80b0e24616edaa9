//! Backward direction: gradients of the image, of both filters and of the bias for a gradient `dout` of the result.
//!
//! With `g = dout`; with `relu`, `g` is zero for results `out` that are not above zero. `dmid[n,c,·] = Σ_m pointwise[m,c] ·
//! g[n,m,·]`, `dpointwise[m,c] = Σ g[n,m,·] · mid[n,c,·]` and `dbias[m] = Σ g[n,m,·]` over images and positions. `dx` and `dw` are
//! those of `depthwise_conv3d` for the gradient `dmid` of its result.
//!
//! With `kept`, `mid` comes from the forward pass, which runs before the timing. Otherwise it is recomputed from `x`. The steps are
//! the backward directions of `conv3d`, with a kernel of one, and of `depthwise_conv3d`.
//!
//! Operations: those of the four gradient computations, twice the forward pass. Recomputation of `mid` is not counted.

use std::sync::OnceLock;

use parallax_ir::stress::{closed, exact, no_gradient, one, smallest_normal, wide};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Rows, Stage, StressInput,
    Tolerance, Variant, normal,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::Caps;

use super::super::depthwise_conv3d::volume::Volume;
use super::super::linear::backward::by_element;
use super::middle::kept;
use super::{AWKWARD, POINTWISE, W, X, middle, pointwise, shapes, stages};
use crate::SubOp;

const DOUT: usize = 3;
/// Index of the forward pass's result, if the shape has ReLU.
const OUT: usize = 4;

/// Specification of the backward direction.
pub(super) fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(row_cost, rows),
        OfNan::MIXED,
    )
    .headline("n1,c16,m32,d32,h64,p1,ncdhw")
    .shapes(shapes)
    .awkward(AWKWARD)
    .setup(|p, caps| Program { stages: kept(p).then(|| stages::best(p, caps)).into_iter().collect() })
    .host(host)
    .variants(vec![
        Variant::kernel(
            "direct",
            "every step by one element per thread, straight from device memory",
            |p, caps| {
                let again = (!kept(p)).then(|| stages::plain(p));
                program(p, caps, again, ["direct", "direct"])
            },
        ),
        Variant::kernel(
            "unfused",
            "products with the pointwise weights by tiles in workgroup memory, depthwise steps by marching threads (where \
             these are written out; otherwise as `direct` does)",
            |p, caps| {
                let again = (!kept(p)).then(|| stages::best(p, caps));
                let marching = depthwise_part(p).best(&["marching", "direct"], caps);
                program(p, caps, again, ["implicit_gemm", marching])
            },
        ),
    ])
    .fallback(&["unfused", "direct"])
    .stress(stress_inputs())
}

/// Second step as a sub-operation.
fn pointwise_part(p: &Problem) -> SubOp {
    let (v, [c, m]) = (Volume::new(&p.shape), pointwise(p).channels);
    let ([d, h, w], layout) = (v.out, layout(&v));
    let words: String =
        ["bias", "relu"].iter().filter(|word| p.shape.has(word)).map(|word| format!(",{word}")).collect();
    SubOp::new("conv3d", Direction::Bwd, &format!("n{},c{c},m{m},d{d},h{h},w{w},k1,{layout}{words}", v.n), p.dtype)
}

/// First step as a sub-operation.
fn depthwise_part(p: &Problem) -> SubOp {
    let (v, s) = (Volume::new(&p.shape), &p.shape);
    let ([d, h, w], [kd, k, kw]) = (v.image, v.kernel);
    let steps = format!("s{},p{},l{}", s["s"], s["p"], s["l"]);
    let shape = format!("n{},c{},d{d},h{h},w{w},k{k},kd{kd},kw{kw},{steps},{}", v.n, v.c, layout(&v));
    SubOp::new("depthwise_conv3d", Direction::Bwd, &shape, p.dtype)
}

fn layout(v: &Volume) -> &'static str {
    if v.channels_last { "ndhwc" } else { "ncdhw" }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (v, conv) = (Volume::new(&p.shape), pointwise(p));
    let ([c, m], out) = (conv.channels, conv.out_dims());
    let (first, second) = (depthwise_part(p), pointwise_part(p));
    let [bias, relu] = ["bias", "relu"].map(|word| p.shape.has(word));
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &v.dims(v.image), normal),
        BufferSpec::input("w", Elem::Real, &v.filter_dims(), normal),
        BufferSpec::input("pointwise", Elem::Real, &[m, c], normal),
        BufferSpec::input("dout", Elem::Real, &out, normal),
    ];
    if relu {
        buffers.push(BufferSpec::input("out", Elem::Real, &out, normal));
    }
    buffers.push(match kept(p) {
        true => BufferSpec::setup("mid", Elem::Real, &conv.x_dims()),
        false => BufferSpec::scratch("mid", Elem::Real, &conv.x_dims()),
    });
    buffers.push(BufferSpec::output("dx", Elem::Real, &v.dims(v.image)));
    buffers.extend([by_element("dw", &v.filter_dims()), by_element("dpointwise", &[m, c])]);
    if bias {
        buffers.extend([by_element("dbias", &[m]), second.scratch("sums", "sums")]);
    }
    if relu {
        buffers.push(second.scratch("gated", "gated"));
    }
    buffers.extend([
        BufferSpec::scratch("dmid", Elem::Real, &conv.x_dims()),
        first.scratch("parts", "filter_parts"),
        second.scratch("parts", "pointwise_parts"),
    ]);
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (v, conv) = (Volume::new(&p.shape), pointwise(p));
    let ([image, mid], [c, m]) = (v.elements(), conv.channels);
    let out = conv.out_dims().iter().product::<u64>();
    let [bias, relu, kept] = ["bias", "relu", "kept"].map(|word| u64::from(p.shape.has(word)));
    let element = Elem::Real.storage(p.dtype).bytes();
    let weights = c * v.taps() + c * m;
    let read = image + weights + (1 + relu) * out + kept * mid;
    Cost::new(4 * v.taps() * mid + 2 * conv.flops(), read * element, (image + weights + bias * m) * element)
}

/// Indices of the checked buffers; the first is absent if nothing is kept.
const MID: usize = 0;
const DX: usize = 1;
const DW: usize = 2;
const DPOINTWISE: usize = 3;

fn checked(p: &Problem, output: usize) -> usize {
    if kept(p) { output } else { output + 1 }
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    let (v, u, f32u) = (Volume::new(&p.shape), p.dtype.unit_roundoff(), 2f64.powi(-24));
    let (taps, m, positions) = (v.taps() as f64, pointwise(p).channels[1] as f64, pointwise(p).pixels()[1] as f64);
    // Error over `terms` terms. One factor of each is a stored sum of `products` products.
    let over = |terms: f64, products: f64| {
        let own = products.sqrt() * 8.0 * f32u * (terms + 16.0);
        own + 8.0 * (f32u * products + u * products.sqrt()) * (terms + 8.0).sqrt()
    };
    let abs = match checked(p, output) {
        MID => return middle::tolerance(p),
        DX => over(taps, m),
        DW => over(positions, m),
        DPOINTWISE => over(positions, taps),
        _ => 8.0 * f32u * (positions + 16.0),
    };
    Tolerance {
        abs: abs + smallest_normal(p),
        rel: 2.0 * u,
        reason: "terms of random sign are summed in f32: a sum wanders by the root of their number, and so does its rounding at \
                 each step; depthwise results and their gradients, of about the root of their terms, are rounded to the element \
                 type, and these errors wander likewise; the result is rounded once",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        no_gradient(of_nothing),
        closed(|p| p.shape.has("relu"), of_nothing),
        StressInput::new(
            "equal",
            "all one: counts of taps, channels and positions, and products of these",
            |p| {
                let out = p.shape.has("relu").then_some(("out", one as parallax_ir::Fill));
                let all = ["x", "w", "pointwise", "dout"].map(|name| (name, one as parallax_ir::Fill));
                all.into_iter().chain(out).collect()
            },
            |p, _| Tolerance {
                abs: 0.0,
                rel: 4.0 * p.dtype.unit_roundoff(),
                reason: "sums of ones are exact in f32 below 2^24; intermediates are rounded to the element type, and so \
                         is the result",
            },
        )
        .applies(|p| {
            let (v, [_, positions]) = (Volume::new(&p.shape), pointwise(p).pixels());
            let most = positions.max(v.taps()) * v.taps().max(p["m"]);
            most < if wide(p) { 1 << 24 } else { 60_000 }
        }),
    ]
}

/// Tolerance for inputs that make every gradient zero.
fn of_nothing(p: &Problem, output: usize) -> Tolerance {
    match checked(p, output) {
        MID => middle::tolerance(p),
        _ => exact(p, output),
    }
}

/// Multiply-adds of a row. Rows of the filters' gradients are single elements. Each needs a channel of the intermediates, computed
/// once.
fn row_cost(p: &Problem, output: usize) -> u64 {
    let (v, conv) = (Volume::new(&p.shape), pointwise(p));
    let ([_, m], [_, positions]) = (conv.channels, conv.pixels());
    match checked(p, output) {
        MID => v.taps() * conv.x_dims().last().expect("extents"),
        DX => v.taps() * m * v.row(v.image),
        DW => positions * (m + 1),
        DPOINTWISE => positions * (v.taps() + 1),
        _ => positions,
    }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (v, conv) = (Volume::new(&p.shape), pointwise(p));
    let ([c, m], relu) = (conv.channels, p.shape.has("relu"));
    let gradient = move |place: u64| match relu && inputs.at(OUT, place) <= 0.0 {
        true => 0.0,
        false => inputs.at(DOUT, place),
    };
    // Gradient of a depthwise result.
    let dmid = move |n: u64, channel: u64, at: [u64; 3]| -> f64 {
        let of = |o: u64| gradient(conv.out_at([n, o], at)) * inputs.at(POINTWISE, o * c + channel);
        (0..m).map(of).sum()
    };
    // Every image and position, always in the same order.
    let everywhere = move || (0..conv.images).flat_map(move |n| conv.every_output().map(move |at| (n, at)));
    let made = || -> Vec<OnceLock<Vec<f64>>> { (0..c).map(|_| OnceLock::new()).collect() };
    let (results, gradients) = (made(), made());
    let taps: Vec<[u64; 3]> = v.each_tap().collect();
    Box::new(move |output, row, out| {
        let result = |channel: u64| {
            let all = || everywhere().map(|(n, at)| middle::value(&v, inputs, (n, channel, at))).collect();
            results[channel as usize].get_or_init(all)
        };
        let gradient_of = |channel: u64| {
            gradients[channel as usize].get_or_init(|| everywhere().map(|(n, at)| dmid(n, channel, at)).collect())
        };
        match checked(p, output) {
            MID => middle::row(&v, inputs, &conv, row, out),
            DX => {
                for (slot, lane) in out.iter_mut().zip(0..) {
                    let (n, channel, place) = v.place(v.image, row, lane);
                    let term = |tap| {
                        Some(dmid(n, channel, v.output_position(place, tap)?) * inputs.at(W, v.tap_at(channel, tap)))
                    };
                    *slot = v.each_tap().filter_map(term).sum();
                }
            }
            DW => {
                let (channel, tap) = match v.channels_last {
                    true => (row % c, taps[(row / c) as usize]),
                    false => (row / v.taps(), taps[(row % v.taps()) as usize]),
                };
                let term = |((n, at), g): ((u64, [u64; 3]), &f64)| {
                    Some(g * inputs.at(X, v.at(v.image, (n, channel, v.input_position(at, tap)?))))
                };
                out[0] = everywhere().zip(gradient_of(channel)).filter_map(term).sum();
            }
            DPOINTWISE => {
                let term = |((n, at), mid): ((u64, [u64; 3]), &f64)| gradient(conv.out_at([n, row / c], at)) * mid;
                out[0] = everywhere().zip(result(row % c)).map(term).sum();
            }
            _ => out[0] = everywhere().map(|(n, at)| gradient(conv.out_at([n, row], at))).sum(),
        }
    })
}

/// Host implementation, from that of both steps.
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (first, second) = (depthwise_part(p), pointwise_part(p));
    let run = |part: &SubOp, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]| {
        (part.problem().form().host.expect("it has code of its own"))(part.problem(), inputs, outputs);
    };
    let relu = usize::from(p.shape.has("relu"));
    let mid = match inputs.get(OUT + relu) {
        Some(kept) => kept.clone(),
        None => HostBuffer::F32(middle::host(p, inputs[X].f32(), inputs[W].f32())),
    };
    let dmid = vec![0.0; mid.f32().len()];
    let given = [&[mid, inputs[POINTWISE].clone()], &inputs[DOUT..=DOUT + relu]].concat();
    let (of_first, of_second) = outputs.split_at_mut(2);
    let mut made: Vec<Vec<f32>> = std::iter::once(dmid).chain(of_second.iter_mut().map(std::mem::take)).collect();
    run(&second, &given, &mut made);
    let mut made = made.into_iter();
    let dmid = HostBuffer::F32(made.next().expect("made above"));
    of_second.iter_mut().zip(made).for_each(|(output, made)| *output = made);
    run(&first, &[inputs[X].clone(), inputs[W].clone(), dmid], of_first);
}

/// Program of both steps, each by a variant of its own, after the stage that recomputes `mid`.
fn program(p: &Problem, caps: &Caps, again: Option<Stage>, [second, first]: [&'static str; 2]) -> Program {
    let names = [("x", "mid"), ("w", "pointwise"), ("dx", "dmid"), ("dw", "dpointwise"), ("parts", "pointwise_parts")];
    let through = pointwise_part(p).stages(second, caps, &names).into_iter();
    let through = through.map(|stage| {
        stage.renamed(|label| label.replace("dx", "dmid").replace("dw", "dpointwise")).component(stages::SECOND_STEP)
    });
    let names = [("dout", "dmid"), ("parts", "filter_parts")];
    let back =
        depthwise_part(p).stages(first, caps, &names).into_iter().map(|stage| stage.component(stages::FIRST_STEP));
    Program { stages: again.into_iter().chain(through).chain(back).collect() }
}

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_schema::testing::caps;

    #[test]
    fn what_is_kept_is_not_made_anew() {
        let buffers = |shape: &str| {
            let case = parse_case(&format!("separable_conv3d/bwd/{shape}/f32/unfused")).expect("valid");
            let stages = case.program(&caps()).expect("a kernel variant").stages;
            stages.into_iter().map(|stage| stage.label.into_owned()).collect::<Vec<_>>()
        };
        let again = buffers("n1,c4,m8,d4,p1,ndhwc,bias,relu");
        assert_eq!(again[..3], ["depthwise", "gate", "dmid"]);
        assert_eq!(buffers("n1,c4,m8,d4,p1,ndhwc,bias,relu,kept"), again[1..]);
    }
}

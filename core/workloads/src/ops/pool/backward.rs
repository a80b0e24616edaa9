//! Gradient of the image: each pixel sums its share of the gradients of its windows. The gradient of a maximum goes to the first of
//! the largest pixels, or to the last NaN, as in PyTorch. The set-up stores the position of that pixel, as a forward pass of
//! training does.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, scattered_nan, smallest_normal, subnormal, sums_of_zeros, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Stage, StressInput, Tolerance,
    Variant, normal,
};
use parallax_schema::case::{Cost, Direction, Rate};

use super::window::Windows;
use super::{AWKWARD, X, by_pieces_of, image, largest, most_pixels, not_finite, pooled, shapes};
use crate::pixels::{along, apart, bytes, position, several, split};

/// Specification of the backward direction.
pub(super) fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, _| {
                let [rows, columns] = Windows::from_shape(&p.shape);
                let of_largest = if largest(p) { most_pixels(p) } else { 1 };
                rows.sharing() * columns.sharing() * of_largest * image(p)[3].max(pooled(p)[3])
            },
            |p, inputs| Box::new(move |output, row, out| reference(p, inputs, (output, row), out)),
        ),
        OfNan::Kept,
    )
    .headline("n8,c64,h112,k3,s2,p1,nchw,max")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .setup(|p, _| Program { stages: if largest(p) { vec![first_largest(p)] } else { Vec::new() } })
    .variants(vec![
        Variant::kernel("naive", "one pixel per thread, which looks through the windows around it", |p, _| {
            program(p, 1)
        }),
        Variant::kernel(
            "vector",
            "16 bytes of the gradient per thread (WGSL: four elements): of neighbouring channels, whose windows are the \
             same, in nhwc; of a row in nchw",
            |p, caps| program(p, along(p, image(p), caps)),
        )
        .available(|p, caps| several(p, image(p), caps)),
    ])
    .fallback(&["vector", "naive"])
    .stress(stress_inputs())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (x, dout) = (
        BufferSpec::input("x", Elem::Real, &image(p), normal),
        BufferSpec::input("dout", Elem::Real, &pooled(p), normal),
    );
    let dx = BufferSpec::output("dx", Elem::Real, &image(p));
    // An average does not depend on the image.
    match largest(p) {
        true => vec![x, dout, BufferSpec::setup("place", Elem::U32, &pooled(p)), dx],
        false => vec![dout, dx],
    }
}

fn cost(p: &Problem) -> Cost {
    let outputs = pooled(p).iter().product::<u64>();
    let places = if largest(p) { 4 * outputs } else { 0 };
    let [rows, columns] = Windows::from_shape(&p.shape);
    let pairs = image(p).iter().product::<u64>() * rows.sharing() * columns.sharing();
    Cost::new(pairs, bytes(p, &pooled(p)) + places, bytes(p, &image(p)))
}

/// Whether the output is the positions of the largest pixels.
fn is_place(p: &Problem, output: usize) -> bool {
    largest(p) && output == 0
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    if is_place(p, output) {
        return Tolerance { abs: 0.5, rel: 0.0, reason: "a whole number" };
    }
    let [rows, columns] = Windows::from_shape(&p.shape);
    let terms = (rows.sharing() * columns.sharing()) as f64;
    Tolerance {
        abs: (terms + 2.0) * 2f64.powi(-24) * 3.47 * terms + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "shares of gradients of at most 3.47 are summed in f32 (n·u times the sum of magnitudes), and the result is \
                 rounded once to the element type",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    fn small(p: &Problem, output: usize) -> Tolerance {
        if is_place(p, output) {
            return tolerance(p, output);
        }
        let [rows, columns] = Windows::from_shape(&p.shape);
        Tolerance {
            abs: (2 * rows.sharing() * columns.sharing() + 1) as f64 * smallest_normal(p),
            reason: "each share may be taken for zero, and so may the sum; it is rounded once",
            ..tolerance(p, output)
        }
    }
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set(
            "zeros",
            "gradients of zero",
            |_| vec![("dout", zero)],
            |p, output| if is_place(p, output) { exact(p, output) } else { sums_of_zeros(p) },
        ),
        set(
            "ones",
            "gradients of one: how many windows a pixel is part of, or the largest of",
            |_| vec![("dout", one)],
            tolerance,
        ),
        StressInput {
            applies: largest,
            ..set(
                "equal",
                "an image of ones: the first pixel of each window is its largest",
                |_| vec![("x", one)],
                tolerance,
            )
        },
        StressInput {
            applies: largest,
            ..set(
                "not finite",
                "an image with NaN and -inf: the last NaN of each window gets its gradient",
                |_| vec![("x", not_finite)],
                tolerance,
            )
        },
        set("nan", "gradients with NaN: so are those of their pixels", |_| vec![("dout", scattered_nan)], tolerance),
        set("subnormal", "gradients too small to be normal", |p| vec![("dout", subnormal(p))], small),
    ]
}

/// Position of the first of a window's largest pixels, or of the last NaN, within its channel.
fn place_of_largest(p: &Problem, inputs: &Inputs, [n, c, y, x]: [u64; 4]) -> u64 {
    let [rows, columns] = Windows::from_shape(&p.shape);
    let mut found: Option<(f64, u64)> = None;
    for i in rows.window(y) {
        for j in columns.window(x) {
            let value = inputs.at(X, position(p, image(p), [n, c, i, j]));
            if value.is_nan() || found.is_none_or(|(largest, _)| value > largest) {
                found = Some((value, i * p["w"] + j));
            }
        }
    }
    found.expect("every window has a pixel").1
}

fn reference(p: &Problem, inputs: &Inputs, (output, row): (usize, u64), out: &mut [f64]) {
    if is_place(p, output) {
        for (slot, at) in out.iter_mut().zip(row * pooled(p)[3]..) {
            *slot = place_of_largest(p, inputs, split(p, pooled(p), at)) as f64;
        }
        return;
    }
    let gradients = usize::from(largest(p));
    let [rows, columns] = Windows::from_shape(&p.shape);
    for (slot, at) in out.iter_mut().zip(row * image(p)[3]..) {
        let [n, c, i, j] = split(p, image(p), at);
        *slot = 0.0;
        for y in rows.around(i) {
            for x in columns.around(j) {
                let window = [n, c, y, x];
                let gradient = inputs.at(gradients, position(p, pooled(p), window));
                if !largest(p) {
                    *slot += gradient / (rows.divisor(y) * columns.divisor(x)) as f64;
                } else if place_of_largest(p, inputs, window) == i * p["w"] + j {
                    *slot += gradient;
                }
            }
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (dout, places) = match largest(p) {
        true => (inputs[1].f32(), Some(inputs[2].u32())),
        false => (inputs[0].f32(), None),
    };
    let [rows, columns] = Windows::from_shape(&p.shape);
    let [height, width, lines, windows] =
        [rows.extent, columns.extent, rows.outputs, columns.outputs].map(|extent| extent as usize);
    let apart = apart(p);
    if let (1, Some(places)) = (apart, places) {
        let planes = outputs[0].par_chunks_mut(height * width).enumerate();
        return planes.for_each(|(plane, out)| {
            let of_plane = plane * lines * windows..(plane + 1) * lines * windows;
            to_largest(out, &dout[of_plane.clone()], &places[of_plane]);
        });
    }
    outputs[0].par_chunks_mut(width * apart).enumerate().for_each(|(line, out)| {
        let (image, i) = (line / height, line % height);
        out.fill(0.0);
        for y in rows.around(i as u64) {
            let of_line = (image * lines + y as usize) * windows * apart..;
            let gradients = dout[of_line.clone()][..windows * apart].chunks_exact(apart);
            if let Some(places) = places {
                let begin = i * width;
                for (gradients, places) in gradients.zip(places[of_line].chunks_exact(apart)) {
                    for (channel, (gradient, place)) in gradients.iter().zip(places).enumerate() {
                        let column = (*place as usize).wrapping_sub(begin);
                        if column < width {
                            out[column * apart + channel] += gradient;
                        }
                    }
                }
                continue;
            }
            for (gradients, x) in gradients.zip(0..) {
                let divisor = (rows.divisor(y) * columns.divisor(x)) as f32;
                for j in columns.window(x) {
                    let pixel = out[j as usize * apart..].iter_mut();
                    pixel.zip(gradients).for_each(|(slot, gradient)| *slot += gradient / divisor);
                }
            }
        }
    });
}

/// Adds the gradient of each window of a plane to the pixel of its maximum.
fn to_largest(out: &mut [f32], gradients: &[f32], places: &[u32]) {
    out.fill(0.0);
    for (gradient, place) in gradients.iter().zip(places) {
        if let Some(slot) = out.get_mut(*place as usize) {
            *slot += gradient;
        }
    }
}

/// Set-up with one result element per thread.
fn first_largest(p: &Problem) -> Stage {
    let outputs: u64 = pooled(p).iter().product();
    by_pieces_of(p, (pooled(p), 1), ["pool/place"; 2], "pool_place")
        .args([("x", Read), ("place", Write)])
        .cost(Cost::new(super::pixels_of_windows(p), bytes(p, &image(p)), 4 * outputs))
}

fn program(p: &Problem, width: u64) -> Program {
    let texts = ["pool/backward", "pool/backward_row"];
    let stage = by_pieces_of(p, (image(p), width), texts, "pool_backward").cost(cost(p));
    match largest(p) {
        true => stage.args([("dout", Read), ("dx", Write), ("place", Read)]),
        false => stage.args([("dout", Read), ("dx", Write)]),
    }
    .into()
}

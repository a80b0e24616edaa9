//! Gradient of the image: each pixel sums the gradients of the outputs beside it by their weights. An output without a weight of the
//! pixel gives nothing, even if its gradient is NaN.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, scattered_nan, smallest_normal, subnormal, sums_of_zeros, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, StressInput, Tolerance, Variant,
    normal,
};
use parallax_schema::case::{Cost, Direction, Rate};

use super::taps::Taps;
use super::{AWKWARD, by_pieces_of, image, products, resized, shapes};
use crate::pixels::{along, apart, bytes, position, several, split};

const DOUT: usize = 0;

/// Specification of the backward direction.
pub(super) fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        |p| {
            vec![
                BufferSpec::input("dout", Elem::Real, &resized(p), normal),
                BufferSpec::output("dx", Elem::Real, &image(p)),
            ]
        },
        cost,
        tolerance,
        Reference::new(
            |p, _| terms(p) * image(p)[3],
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("n8,c64,h56,oh112,nchw,bilinear")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one pixel per thread, which sums its outputs", |p, _| {
            program(p, 1)
        }),
        Variant::kernel(
            "vector",
            "16 bytes of the gradient per thread (WGSL: four elements): of neighbouring channels, whose outputs are the \
             same, in nhwc; of a row in nchw",
            |p, caps| program(p, along(p, image(p), caps)),
        )
        .available(|p, caps| several(p, image(p), caps)),
    ])
    .fallback(&["vector", "naive"])
    .stress(stress_inputs())
}

/// Largest number of outputs around a pixel.
fn terms(p: &Problem) -> u64 {
    Taps::from_shape(&p.shape).iter().map(Taps::sharing).product()
}

fn cost(p: &Problem) -> Cost {
    Cost::new(products(p), bytes(p, &resized(p)), bytes(p, &image(p)))
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let terms = terms(p) as f64;
    Tolerance {
        abs: (terms + 8.0) * 2f64.powi(-24) * 3.47 * terms + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "shares of gradients of at most 3.47 are summed in f32 (n·u times the sum of magnitudes); a weight has at most \
                 eight roundings, and the result is rounded once to the element type",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    fn small(p: &Problem, output: usize) -> Tolerance {
        Tolerance {
            abs: (2 * terms(p) + 1) as f64 * smallest_normal(p),
            reason: "each share may be taken for zero, and so may the sum; it is rounded once",
            ..tolerance(p, output)
        }
    }
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "gradients of zero", |_| vec![("dout", zero)], |p, _| sums_of_zeros(p)),
        set("ones", "gradients of one: the weight of each pixel in all outputs", |_| vec![("dout", one)], tolerance),
        set("nan", "gradients with NaN: so are those of their pixels", |_| vec![("dout", scattered_nan)], tolerance),
        set("subnormal", "gradients too small to be normal", |p| vec![("dout", subnormal(p))], small),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let [rows, columns] = Taps::from_shape(&p.shape);
    for (slot, at) in out.iter_mut().zip(row * image(p)[3]..) {
        let [n, c, i, j] = split(p, image(p), at);
        *slot = 0.0;
        for y in rows.around(i) {
            for x in columns.around(j) {
                let weight = rows.weight(i, y) * columns.weight(j, x);
                *slot += weight * inputs.at(DOUT, position(p, resized(p), [n, c, y, x]));
            }
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let dout = inputs[DOUT].f32();
    let [rows, columns] = Taps::from_shape(&p.shape);
    let apart = apart(p);
    let places: Vec<(usize, usize, f32)> = (0..columns.outputs)
        .map(|at| columns.of(at))
        .map(|(left, right, across)| (left as usize * apart, right as usize * apart, across as f32))
        .collect();
    let (height, lines) = (rows.extent as usize, rows.outputs as usize);
    outputs[0].par_chunks_mut(columns.extent as usize * apart).enumerate().for_each(|(line, out)| {
        let (image, i) = (line / height, (line % height) as u64);
        out.fill(0.0);
        let mut add = |at: usize, weight: f32, gradients: &[f32]| {
            out[at..].iter_mut().zip(gradients).for_each(|(slot, gradient)| *slot += weight * gradient);
        };
        for y in rows.around(i) {
            let down = rows.weight(i, y) as f32;
            let gradients = &dout[(image * lines + y as usize) * places.len() * apart..];
            for (gradients, (left, right, across)) in gradients.chunks_exact(apart).zip(&places) {
                add(*left, down * (1.0 - across), gradients);
                // A pixel without a weight gets nothing, even if the gradient is NaN.
                if *across > 0.0 {
                    add(*right, down * across, gradients);
                }
            }
        }
    });
}

fn program(p: &Problem, width: u64) -> Program {
    let texts = ["resize/backward", "resize/backward_row"];
    by_pieces_of(p, (image(p), width), texts, "resize_backward")
        .args([("dout", Read), ("dx", Write)])
        .cost(cost(p))
        .into()
}

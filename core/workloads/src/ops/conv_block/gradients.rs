//! Reference of the backward direction in f64, and the host implementation in f32.

use parallax_ir::conv::Conv;
use parallax_ir::parallel::*;
use parallax_ir::{HostBuffer, Inputs, Problem, Rows};

use super::super::conv2d::backward::{host_products, of_input, of_kernels};
use super::buffers::{DBETA, DGAMMA, DOUT, DW, DX, GAMMA, MEAN, OUT, VALUES, VARIANCE, W, X};
use super::{EPS, inference};
use crate::real::{gated, narrow};

/// State of a channel: sum of the gradient, sum of its products with the normalised values, deviation, and factor.
struct Channel {
    sum: f64,
    product: f64,
    mean: f64,
    deviation: f64,
    gamma: f64,
}

/// State of all rows: gradient of the normalised values, and the state of each channel.
struct SharedState {
    values: Vec<f64>,
    channels: Vec<Channel>,
}

/// Accessors of the input arrays.
struct Given<A> {
    gamma: A,
    mean: A,
    variance: A,
    values: A,
    out: A,
    dout: A,
}

impl<A: Fn(u64) -> f64 + Sync> Given<A> {
    /// Accessors from a function of the buffer index.
    fn new(at: impl Fn(usize) -> A) -> Given<A> {
        Given {
            gamma: at(GAMMA),
            mean: at(MEAN),
            variance: at(VARIANCE),
            values: at(VALUES),
            out: at(OUT),
            dout: at(DOUT),
        }
    }

    /// Gradient of ReLU's argument.
    fn gated(&self, place: u64) -> f64 {
        gated((self.out)(place), (self.dout)(place))
    }

    fn known(&self, p: &Problem) -> SharedState {
        let conv = Conv::new(&p.shape);
        let count = conv.pixels()[1] as f64;
        let of_channel = |m: u64| {
            let of_image = |image: u64| conv.every_output().map(move |at| conv.out_at([image, m], at));
            let (mean, deviation) = ((self.mean)(m), ((self.variance)(m) + EPS).sqrt());
            let (mut sum, mut product) = (0.0, 0.0);
            for place in (0..conv.images).flat_map(of_image) {
                sum += self.gated(place);
                product += self.gated(place) * ((self.values)(place) - mean) / deviation;
            }
            Channel { sum, product, mean, deviation, gamma: (self.gamma)(m) }
        };
        let channels: Vec<Channel> = (0..conv.channels[1]).into_par_iter().map(of_channel).collect();
        let value = |place: u64| {
            let channel = &channels[conv.out_index(place).0[1] as usize];
            let own = ((self.values)(place) - channel.mean) / channel.deviation;
            let common = if inference(p) { 0.0 } else { (channel.sum + own * channel.product) / count };
            (self.gated(place) - common) * channel.gamma / channel.deviation
        };
        let values = (0..conv.out_dims().iter().product::<u64>()).into_par_iter().map(value).collect();
        SharedState { values, channels }
    }
}

/// Multiply-adds of a row. The gradient of the normalised values needs sums over all of them, once for all rows.
pub(super) fn row_cost(p: &Problem, output: usize) -> u64 {
    let conv = Conv::new(&p.shape);
    match output {
        DX => conv.group_channels()[1] * conv.taps() * conv.x_dims().last().expect("extents"),
        DW => conv.pixels()[1],
        _ => conv.out_dims().iter().product(),
    }
}

pub(super) fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let conv = Conv::new(&p.shape);
    let at = |input: usize| {
        let whole = inputs.whole(input);
        move |place: u64| whole[place as usize]
    };
    let (x, w) = (at(X), at(W));
    let known = Given::new(at).known(p);
    Box::new(move |output, row, out| {
        let first = row * out.len() as u64;
        for (slot, place) in out.iter_mut().zip(first..) {
            let gradient = |place: u64| known.values[place as usize];
            let channel = || &known.channels[place as usize];
            *slot = match output {
                DX => of_input(&conv, place, gradient, &w),
                DW => of_kernels(&conv, place, gradient, &x),
                DGAMMA => channel().product,
                DBETA => channel().sum,
                _ => channel().sum * channel().gamma / channel().deviation,
            };
        }
    })
}

pub(super) fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let at = |input: usize| {
        let whole = inputs[input].f32();
        move |place: u64| f64::from(whole[place as usize])
    };
    let known = Given::new(at).known(p);
    let g: Vec<f32> = known.values.par_iter().map(|value| narrow(*value)).collect();
    host_products(&Conv::new(&p.shape), [inputs[X].f32(), inputs[W].f32(), &g], outputs);
    for (m, channel) in known.channels.iter().enumerate() {
        outputs[DGAMMA][m] = narrow(channel.product);
        outputs[DBETA][m] = narrow(channel.sum);
        if let Some(dbias) = outputs.get_mut(DBETA + 1) {
            dbias[m] = narrow(channel.sum * channel.gamma / channel.deviation);
        }
    }
}

//! Reference in f64, and the host implementation in f32.

use parallax_ir::conv::Conv;
use parallax_ir::parallel::*;
use parallax_ir::{HostBuffer, Inputs, Problem, Rows};

use super::super::conv2d::forward::sum_at;
use super::super::conv2d::patches::{convolve, finish};
use super::accuracy::{Holds, holds};
use super::{BETA, BIAS, EPS, GAMMA, MEAN, VARIANCE, W, X, inference};
use crate::real::{Real, narrow, relu, wide};

/// Multiply-adds of a row. Statistics read every value, once for all rows.
pub(super) fn row_cost(p: &Problem, output: usize) -> u64 {
    let conv = Conv::new(&p.shape);
    match holds(p, output) {
        Holds::Mean => conv.flops() / 2,
        Holds::Variance => conv.channels[1],
        Holds::Out => conv.terms() * conv.out_dims().last().expect("extents"),
    }
}

/// Values before normalisation: sums of the convolution with the bias, in the layout of the result, term by term.
fn values(conv: &Conv, x: &[f64], w: &[f64], bias: &[f64]) -> Vec<f64> {
    let value = |place: u64| {
        let ([image, m], at) = conv.out_index(place);
        sum_at(conv, [x, w], [image, m], at) + bias[m as usize]
    };
    (0..conv.out_dims().iter().product::<u64>()).into_par_iter().map(value).collect()
}

/// Mean and variance of each channel.
fn moments<T: Real>(conv: &Conv, values: &[T]) -> Vec<(f64, f64)> {
    let of_channel = |m: u64| {
        let runs = || values.chunks_exact(conv.run()).skip(m as usize).step_by(conv.channels[1] as usize);
        let channel = || runs().flatten().map(|value| wide(*value));
        let count = conv.pixels()[1] as f64;
        let mean = channel().sum::<f64>() / count;
        (mean, channel().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
    };
    (0..conv.channels[1]).into_par_iter().map(of_channel).collect()
}

/// Result of a value.
fn finished(value: f64, (mean, variance): (f64, f64), gamma: f64, beta: f64) -> f64 {
    relu((value - mean) / (variance + EPS).sqrt() * gamma + beta)
}

/// Computes a row at a time if the statistics are inputs. Otherwise every value is computed before the first row.
pub(super) fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let conv = Conv::new(&p.shape);
    let (x, w, bias) = (inputs.whole(X), inputs.whole(W), inputs.whole(BIAS));
    let known = (!inference(p)).then(|| {
        let values = values(&conv, &x, &w, &bias);
        let moments = moments(&conv, &values);
        (values, moments)
    });
    Box::new(move |output, row, out| {
        let first = row * out.len() as u64;
        for (slot, place) in out.iter_mut().zip(first..) {
            let statistics = |m: u64| match &known {
                Some((_, moments)) => moments[m as usize],
                None => (inputs.at(MEAN, m), inputs.at(VARIANCE, m)),
            };
            *slot = match holds(p, output) {
                Holds::Mean => statistics(place).0,
                Holds::Variance => statistics(place).1,
                Holds::Out => {
                    let ([image, m], at) = conv.out_index(place);
                    let value = match &known {
                        Some((values, _)) => values[place as usize],
                        None => sum_at(&conv, [&x, &w], [image, m], at) + bias[m as usize],
                    };
                    finished(value, statistics(m), inputs.at(GAMMA, m), inputs.at(BETA, m))
                }
            };
        }
    })
}

/// Values before normalisation, by GEMMs.
fn host_values(conv: &Conv, x: &[f32], w: &[f32], bias: &[f32]) -> Vec<f32> {
    let mut values = vec![0.0; conv.out_dims().iter().product::<u64>() as usize];
    convolve(conv, x, w, &mut values);
    finish(conv, Some(bias), false, &mut values);
    values
}

pub(super) fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let conv = Conv::new(&p.shape);
    let [x, w, bias, gamma, beta] = [X, W, BIAS, GAMMA, BETA].map(|at| inputs[at].f32());
    let values = host_values(&conv, x, w, bias);
    let moments: Vec<(f64, f64)> = match inference(p) {
        true => inputs[MEAN].f32().iter().zip(inputs[VARIANCE].f32()).map(|(a, b)| (wide(*a), wide(*b))).collect(),
        false => moments(&conv, &values),
    };
    let (out, statistics) = outputs.split_last_mut().expect("a result");
    let channel = conv.out_channel();
    out.par_iter_mut().zip(values).enumerate().for_each(|(place, (out, value))| {
        let m = channel(place);
        *out = narrow(finished(wide(value), moments[m], wide(gamma[m]), wide(beta[m])));
    });
    if let [mean, variance] = statistics {
        for ((mean, variance), found) in mean.iter_mut().zip(variance).zip(moments) {
            (*mean, *variance) = (narrow(found.0), narrow(found.1));
        }
    }
}

//! Depthwise convolutions on the host, by lines of the output. Each tap adds a line of the image to it.

use std::ops::Range;

use parallax_ir::parallel::*;

use super::volume::{Three, Volume};
use crate::dense;

/// Computes the convolution, which begins with the channel's bias, if any. Every element of `out` is written.
pub(in super::super) fn convolve(v: &Volume, x: &[f32], w: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
    let [depth, height, width] = v.out;
    let together = if v.channels_last { v.c } else { 1 };
    out.par_chunks_mut((width * together) as usize).enumerate().for_each(|(line, out)| {
        let line = line as u64;
        let (plane, z, y) = (line / (depth * height), line / height % depth, line % height);
        let (n, c) = if v.channels_last { (plane, 0) } else { (plane / v.c, plane % v.c) };
        match bias {
            None => out.fill(0.0),
            Some(bias) if v.channels_last => out.chunks_exact_mut(bias.len()).for_each(|o| o.copy_from_slice(bias)),
            Some(bias) => out.fill(bias[c as usize]),
        }
        for tap in v.each_tap() {
            let inside = inside(v, tap);
            let Some(under) = v.input_position([z, y, inside.start], tap).filter(|_| !inside.is_empty()) else {
                continue;
            };
            let pixels = &x[v.at(v.image, (n, c, under)) as usize..];
            let out = &mut out[(inside.start * together) as usize..(inside.end * together) as usize];
            let (weights, stride) = (&w[v.tap_at(c, tap) as usize..], v.stride[2] as usize);
            if v.channels_last {
                let pixels = pixels.chunks(together as usize).step_by(stride);
                for (out, pixel) in out.chunks_exact_mut(together as usize).zip(pixels) {
                    out.iter_mut().zip(pixel).zip(weights).for_each(|((out, x), w)| *out += x * w);
                }
            } else if stride == 1 {
                dense::add(out, weights[0], &pixels[..out.len()]);
            } else {
                let pixels = pixels.iter().step_by(stride);
                out.iter_mut().zip(pixels).for_each(|(out, x)| *out += x * weights[0]);
            }
        }
    });
}

/// Positions of a line whose element under a tap lies in the image.
fn inside(v: &Volume, tap: Three) -> Range<u64> {
    let (stride, shift) = (v.stride[2], (tap[2] * v.dilation[2]).cast_signed() - v.pad[2]);
    let before = shift.min(0).unsigned_abs().div_ceil(stride).min(v.out[2]);
    let behind = v.image[2].checked_add_signed(-shift).unwrap_or(0).div_ceil(stride).clamp(before, v.out[2]);
    before..behind
}

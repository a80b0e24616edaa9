//! Depthwise convolution: one output per thread, or in nhwc one vector of neighbouring channels, straight from device memory.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::definition::{Definition, Real, Width};

/// Extents of a shape, constant in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Extents {
    count: usize,
    /// Vectors of all channels of a pixel, in nhwc; channels, in nchw.
    channels: u32,
    h: u32,
    w: u32,
    oh: u32,
    ow: u32,
    kh: u32,
    kw: u32,
    stride: u32,
    pad: u32,
    dilation: u32,
    nhwc: bool,
}

#[cube]
fn depthwise_conv2d<F: Float, N: Size>(
    x: &[Vector<F, N>],
    filter: &[Vector<F, N>],
    out: &mut [Vector<F, N>],
    #[comptime] e: Extents,
) {
    if ABSOLUTE_POS < comptime!(e.count) {
        let at = ABSOLUTE_POS as u32;
        // The fastest extent is the channels in nhwc and the pixels of a row in nchw.
        let inner = if comptime!(e.nhwc) { at % comptime!(e.channels) } else { at / comptime!(e.oh * e.ow) };
        let pixel = if comptime!(e.nhwc) { at / comptime!(e.channels) } else { at % comptime!(e.oh * e.ow) };
        let channel = inner % comptime!(e.channels);
        let image = if comptime!(e.nhwc) { pixel / comptime!(e.oh * e.ow) } else { inner };
        let (oy, ox) = (pixel / comptime!(e.ow) % comptime!(e.oh), pixel % comptime!(e.ow));
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for i in 0..comptime!(e.kh) {
            // Unsigned underflow: indices before the image's first row and column are huge, so beyond its last.
            let y = oy * comptime!(e.stride) + i * comptime!(e.dilation) - comptime!(e.pad);
            if y < comptime!(e.h) {
                for j in 0..comptime!(e.kw) {
                    let column = ox * comptime!(e.stride) + j * comptime!(e.dilation) - comptime!(e.pad);
                    if column < comptime!(e.w) {
                        let place = (image * comptime!(e.h) + y) * comptime!(e.w) + column;
                        let tap = i * comptime!(e.kw) + j;
                        let from = if comptime!(e.nhwc) { place * comptime!(e.channels) + channel } else { place };
                        let of = if comptime!(e.nhwc) {
                            tap * comptime!(e.channels) + channel
                        } else {
                            channel * comptime!(e.kh * e.kw) + tap
                        };
                        sum += Vector::<f32, N>::cast_from(x[from as usize])
                            * Vector::<f32, N>::cast_from(filter[of as usize]);
                    }
                }
            }
        }
        out[ABSOLUTE_POS] = Vector::cast_from(sum);
    }
}

/// Body of the kernel.
pub fn define(k: &mut Definition<'_>) {
    let [x, filter] = [(); 2].map(|()| k.buffer::<Vector<Real, Width>>());
    let mut out = k.buffer::<Vector<Real, Width>>();
    let extents = Extents {
        count: k.size("COUNT"),
        channels: k.word("CHANNELS"),
        h: k.word("H"),
        w: k.word("W"),
        oh: k.word("OH"),
        ow: k.word("OW"),
        kh: k.word("KH"),
        kw: k.word("KW"),
        stride: k.word("STRIDE"),
        pad: k.word("PAD"),
        dilation: k.word("DILATION"),
        nhwc: k.truth("NHWC"),
    };
    depthwise_conv2d::expand::<Real, Width>(k.scope(), &x, &filter, &mut out, extents);
}

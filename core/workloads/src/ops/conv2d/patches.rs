//! Convolutions on the host: GEMMs of the kernels with patches of the images.
//!
//! A patch holds the values under the kernel at one position of the output, with zeros in the padding. Patches are copied for a
//! block of positions at a time, so that they stay in the caches. Their terms have the order of a kernel in memory. With channels
//! last, each patch is a row: for each tap, the channels of a group are neighbours. With channels first, each patch is a column:
//! for each channel and tap, neighbouring positions read neighbouring pixels.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};
use parallax_ir::conv::Conv;
use parallax_ir::parallel::*;

use crate::dense;
use crate::real::{self, Real};

/// Elements of the patches of a block, which fit into the second level of caches.
const BLOCK: usize = 1 << 16;
/// Smallest and largest number of positions in a block.
const POSITIONS: Range<usize> = 16..1024;
/// Positions of a tile of the library's GEMM. A block has whole tiles, because a part of one takes the time of a whole.
const TILE: usize = 16;

/// Computes the convolution of images with kernels, in the layout of its output. Every element of `out` is written.
pub(in super::super) fn convolve<T: Real>(conv: &Conv, x: &[T], w: &[T], out: &mut [T]) {
    let patches = Patches::new(conv, x);
    match conv.last {
        true => patches.channels_last(w, out),
        false => patches.channels_first(w, out),
    }
}

/// Adds a number per output channel, if any, and makes negative results zero, if `relu`.
pub(in super::super) fn finish(conv: &Conv, bias: Option<&[f32]>, relu: bool, out: &mut [f32]) {
    if bias.is_none() && !relu {
        return;
    }
    let channel = conv.out_channel();
    out.par_iter_mut().enumerate().for_each(|(place, out)| {
        let sum = *out + bias.map_or(0.0, |bias| bias[channel(place)]);
        *out = if relu { real::relu(sum) } else { sum };
    });
}

/// Computes the gradient of the kernels from the images and the gradient of the result. Every element of `dw` is written. The order
/// of additions is the same for any number of threads.
pub(in super::super) fn gradient_of_kernels<T: Real>(conv: &Conv, x: &[T], g: &[T], dw: &mut [T]) {
    let patches = Patches::new(conv, x);
    let works = patches.works();
    let each = works.div_ceil(PARTS);
    let part = |part: usize| {
        let mut dw = vec![T::zero(); dw.len()];
        (part * each..((part + 1) * each).min(works)).for_each(|work| patches.add_gradient(work, g, &mut dw));
        dw
    };
    let parts: Vec<Vec<T>> = (0..works.div_ceil(each)).into_par_iter().map(part).collect();
    dw.fill(T::zero());
    parts.iter().for_each(|part| dense::add(dw, T::one(), part));
}

/// Computes the gradient of the images from the kernels and the gradient of the result, where it is a convolution with reversed
/// kernels. Returns `false`, and writes nothing, where it is none.
pub(in super::super) fn gradient_of_images<T: Real>(conv: &Conv, w: &[T], g: &[T], dx: &mut [T]) -> bool {
    let Some(transposed) = conv.transposed() else { return false };
    let [in_group, out_group] = conv.group_channels();
    let mut reversed = vec![T::zero(); w.len()];
    reversed.par_iter_mut().enumerate().for_each(|(place, slot)| {
        let ([c, m], tap) = transposed.w_index(place as u64);
        let tap = [0, 1, 2].map(|axis| conv.kernel[axis] - 1 - tap[axis]);
        *slot = w[conv.w_at([c / in_group * out_group + m, c % in_group], tap) as usize];
    });
    convolve(&transposed, g, &reversed, dx);
    true
}

/// Number of partial sums of a gradient of kernels.
const PARTS: usize = 16;

/// Source of patches.
struct Patches<'a, T> {
    conv: &'a Conv,
    x: &'a [T],
    /// Number of groups, and of their input and output channels.
    groups: usize,
    channels: [usize; 2],
    /// Number of taps.
    taps: usize,
    /// Number of positions of an output image.
    positions: usize,
    /// Number of positions in a block.
    block: usize,
}

impl<'a, T: Real> Patches<'a, T> {
    fn new(conv: &'a Conv, x: &'a [T]) -> Patches<'a, T> {
        let channels = conv.group_channels().map(|channels| channels as usize);
        let taps = conv.taps() as usize;
        let positions = conv.out().iter().product::<u64>() as usize;
        let block = (BLOCK / (channels[0] * taps)).clamp(POSITIONS.start, POSITIONS.end);
        let block = (block / TILE * TILE).min(positions);
        Patches { conv, x, groups: conv.groups as usize, channels, taps, positions, block }
    }

    /// Number of terms of an output element.
    fn terms(&self) -> usize {
        self.channels[0] * self.taps
    }

    /// Kernels of a group: one row for each output channel.
    fn kernels<'w>(&self, w: &'w [T], group: usize) -> ArrayView2<'w, T> {
        let (rows, terms) = (self.channels[1], self.terms());
        ArrayView2::from_shape([rows, terms], &w[group * rows * terms..][..rows * terms]).expect("whole kernels")
    }

    /// Position of the output by its number within an image.
    fn position(&self, number: usize) -> [u64; 3] {
        let [_, height, width] = self.conv.out();
        let number = number as u64;
        [number / (height * width), number / width % height, number % width]
    }

    /// Number of blocks of an image.
    fn blocks(&self) -> usize {
        self.positions.div_ceil(self.block)
    }

    /// Number of blocks of all images.
    fn works(&self) -> usize {
        self.conv.images as usize * self.blocks()
    }

    /// Image of a block, and its positions.
    fn work(&self, work: usize) -> (usize, Range<usize>) {
        let (image, block) = (work / self.blocks(), work % self.blocks());
        (image, block * self.block..((block + 1) * self.block).min(self.positions))
    }

    /// Adds the part of one block to the gradient of the kernels.
    fn add_gradient(&self, work: usize, g: &[T], dw: &mut [T]) {
        let (image, numbers) = self.work(work);
        let (m, terms, count) = (self.groups * self.channels[1], self.terms(), numbers.len());
        let g = &g[image * m * self.positions..][..m * self.positions];
        let mut patches = vec![T::zero(); terms * count];
        for (group, dw) in dw.chunks_exact_mut(self.channels[1] * terms).enumerate() {
            let rows = group * self.channels[1]..(group + 1) * self.channels[1];
            let mut dw = ArrayViewMut2::from_shape([rows.len(), terms], dw).expect("whole kernels");
            if self.conv.last {
                let pixels = image * self.positions + numbers.start..;
                pixels.zip(patches.chunks_exact_mut(terms)).for_each(|(pixel, row)| self.row(group, pixel, row));
                let patches = ArrayView2::from_shape([count, terms], &patches).expect("whole patches");
                let g = ArrayView2::from_shape([self.positions, m], g).expect("whole images");
                let g = g.slice(s![numbers.clone(), rows]);
                general_mat_mul(T::one(), &g.t(), &patches, T::one(), &mut dw);
            } else {
                self.columns(image, group, numbers.clone(), &mut patches);
                let patches = ArrayView2::from_shape([terms, count], &patches).expect("whole patches");
                let g = ArrayView2::from_shape([m, self.positions], g).expect("whole images");
                let g = g.slice(s![rows, numbers.clone()]);
                general_mat_mul(T::one(), &g, &patches.t(), T::one(), &mut dw);
            }
        }
    }

    fn channels_last(&self, w: &[T], out: &mut [T]) {
        let [_, m] = self.conv.channels.map(|channels| channels as usize);
        out.par_chunks_mut(self.block * m).enumerate().for_each(|(block, out)| {
            let first = block * self.block;
            let mut out = ArrayViewMut2::from_shape([out.len() / m, m], out).expect("whole positions");
            let mut rows = Array2::from_elem([out.nrows(), self.terms()], T::zero());
            for group in 0..self.groups {
                for (pixel, row) in (first..).zip(rows.rows_mut()) {
                    self.row(group, pixel, row.into_slice().expect("a row is contiguous"));
                }
                let columns = group * self.channels[1]..(group + 1) * self.channels[1];
                let mut part = out.slice_mut(s![.., columns]);
                general_mat_mul(T::one(), &rows, &self.kernels(w, group).reversed_axes(), T::zero(), &mut part);
            }
        });
    }

    /// Copies the patch of an output position, by its number over all images.
    fn row(&self, group: usize, pixel: usize, row: &mut [T]) {
        let (image, at) = ((pixel / self.positions) as u64, self.position(pixel % self.positions));
        let of = [image, (group * self.channels[0]) as u64];
        for (tap, slots) in self.conv.every_tap().zip(row.chunks_exact_mut(self.channels[0])) {
            match self.conv.input_position(at, tap) {
                Some(under) => slots.copy_from_slice(&self.x[self.conv.x_at(of, under) as usize..][..slots.len()]),
                None => slots.fill(T::zero()),
            }
        }
    }

    fn channels_first(&self, w: &[T], out: &mut [T]) {
        let blocks = self.blocks();
        let computed = |work: usize| {
            let (image, numbers) = self.work(work);
            let mut found = Array2::from_elem([self.groups * self.channels[1], numbers.len()], T::zero());
            let mut columns = Array2::from_elem([self.terms(), numbers.len()], T::zero());
            for group in 0..self.groups {
                self.columns(image, group, numbers.clone(), columns.as_slice_mut().expect("contiguous"));
                let rows = group * self.channels[1]..(group + 1) * self.channels[1];
                let mut part = found.slice_mut(s![rows, ..]);
                general_mat_mul(T::one(), &self.kernels(w, group), &columns, T::zero(), &mut part);
            }
            found
        };
        let found: Vec<Array2<T>> = (0..self.works()).into_par_iter().map(computed).collect();
        let m = self.groups * self.channels[1];
        out.par_chunks_mut(self.positions).enumerate().for_each(|(row, out)| {
            let of_image = &found[row / m * blocks..][..blocks];
            for (slots, found) in out.chunks_mut(self.block).zip(of_image) {
                slots.copy_from_slice(found.row(row % m).to_slice().expect("a row is contiguous"));
            }
        });
    }

    /// Copies the patches of neighbouring positions of an image. Each channel and tap has a row of them.
    fn columns(&self, image: usize, group: usize, numbers: Range<usize>, columns: &mut [T]) {
        let width = self.conv.out()[2] as usize;
        let mut rows = columns.chunks_exact_mut(numbers.len());
        for channel in 0..self.channels[0] {
            let of = [image as u64, (group * self.channels[0] + channel) as u64];
            for (tap, row) in self.conv.every_tap().zip(&mut rows) {
                let mut number = numbers.start;
                let mut rest = row;
                while !rest.is_empty() {
                    // Positions of one line of the output.
                    let count = (width - number % width).min(rest.len());
                    let (line, after) = rest.split_at_mut(count);
                    self.line(of, self.position(number), tap, line);
                    (number, rest) = (number + count, after);
                }
            }
        }
    }

    /// Copies the values of a channel under one tap, at positions of one line from `at` on.
    fn line(&self, of: [u64; 2], at: [u64; 3], tap: [u64; 3], line: &mut [T]) {
        let Conv { image, pad, stride, dilation, .. } = self.conv;
        let under = |i: usize| (at[i] * stride + tap[i] * dilation).checked_sub(pad[i]).filter(|at| *at < image[i]);
        line.fill(T::zero());
        let (Some(depth), Some(height)) = (under(0), under(1)) else { return };
        let pixels = &self.x[self.conv.x_at(of, [depth, height, 0]) as usize..][..image[2] as usize];
        // The first position of the line that lies in the image, and the first one behind it.
        let shift = at[2] * stride + tap[2] * dilation;
        let before = pad[2].saturating_sub(shift).div_ceil(*stride).min(line.len() as u64);
        let behind = (image[2] + pad[2]).saturating_sub(shift).div_ceil(*stride).clamp(before, line.len() as u64);
        let inside = &mut line[before as usize..behind as usize];
        let Some(first) = (!inside.is_empty()).then(|| (shift + before * stride - pad[2]) as usize) else { return };
        if *stride == 1 {
            inside.copy_from_slice(&pixels[first..][..inside.len()]);
        } else {
            let pixels = pixels[first..].iter().step_by(*stride as usize);
            inside.iter_mut().zip(pixels).for_each(|(slot, pixel)| *slot = *pixel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::backward::{of_input, of_kernels};
    use super::super::forward::sum_at;
    use super::*;
    use crate::ops::conv3d;
    use crate::parse_case;

    /// Small whole numbers, whose sums are exact in any order.
    fn numbers(count: u64) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + i / 5) % 11) as f32 - 5.0).collect()
    }

    #[test]
    fn every_awkward_convolution_has_the_sums_of_its_definition() {
        for (name, workload) in [("conv2d", super::super::workload()), ("conv3d", conv3d::workload())] {
            for text in workload.forms[0].awkward {
                let case = parse_case(&format!("{name}/fwd/{text}/f32/host")).expect("valid");
                let conv = Conv::new(&case.problem.shape);
                let [x, w] = [conv.x_dims(), conv.w_dims()].map(|dims| numbers(dims.iter().product()));
                let mut found = vec![f32::NAN; conv.out_dims().iter().product::<u64>() as usize];
                convolve(&conv, &x, &w, &mut found);
                for (place, value) in found.iter().enumerate() {
                    let (of, at) = conv.out_index(place as u64);
                    assert_eq!(*value, sum_at(&conv, [&x, &w], of, at), "{name} {text} at {place}");
                }
                let g = numbers(conv.out_dims().iter().product());
                let mut dw = vec![f32::NAN; w.len()];
                gradient_of_kernels(&conv, &x, &g, &mut dw);
                for (place, value) in dw.iter().enumerate() {
                    let right =
                        of_kernels(&conv, place as u64, |at| f64::from(g[at as usize]), |at| f64::from(x[at as usize]));
                    assert_eq!(f64::from(*value), right, "{name} {text}: kernels at {place}");
                }
                let mut dx = vec![f32::NAN; x.len()];
                if gradient_of_images(&conv, &w, &g, &mut dx) {
                    for (place, value) in dx.iter().enumerate() {
                        let right = of_input(
                            &conv,
                            place as u64,
                            |at| f64::from(g[at as usize]),
                            |at| f64::from(w[at as usize]),
                        );
                        assert_eq!(f64::from(*value), right, "{name} {text}: images at {place}");
                    }
                }
            }
        }
    }
}

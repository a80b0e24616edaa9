//! Extents and index functions of a depthwise convolution in three dimensions. They serve `depthwise_conv3d`, and
//! `depthwise_conv2d` with a middle extent of one, so that both workloads have the same kernels.

use parallax_ir::{Shape, countable};

/// Extents along three axes, slowest first.
pub(crate) type Three = [u64; 3];

/// Depthwise convolution: input, output, and the window's steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Volume {
    pub n: u64,
    pub c: u64,
    /// Extents of the input.
    pub image: Three,
    /// Extents of the output.
    pub out: Three,
    pub kernel: Three,
    pub stride: Three,
    /// Zeros before each axis; a negative number omits elements.
    pub pad: [i64; 3],
    pub dilation: Three,
    /// Whether the channel is the fastest index, instead of the second slowest.
    pub channels_last: bool,
    /// Whether arrays have two dimensions.
    flat: bool,
}

impl Volume {
    /// Convolution of a shape of either workload.
    pub fn new(shape: &Shape) -> Volume {
        let flat = !shape.extents().iter().any(|(key, _)| *key == "d");
        let (image, kernel) = match flat {
            true => ([shape["h"], 1, shape["w"]], [shape["k"], 1, shape["kw"]]),
            false => ([shape["d"], shape["h"], shape["w"]], [shape["kd"], shape["k"], shape["kw"]]),
        };
        let each = |value: u64, middle: u64| [value, if flat { middle } else { value }, value];
        let (stride, pad, dilation) = (each(shape["s"], 1), each(shape["p"], 0), each(shape["l"], 1));
        let out = |axis: usize| {
            let padded = image[axis].saturating_add(pad[axis].saturating_mul(2));
            let reach = dilation[axis].saturating_mul(kernel[axis] - 1).saturating_add(1);
            padded.checked_sub(reach).map_or(0, |room| room / stride[axis] + 1)
        };
        Volume {
            n: shape["n"],
            c: shape["c"],
            image,
            out: [out(0), out(1), out(2)],
            kernel,
            stride,
            pad: pad.map(|p| i64::try_from(p).unwrap_or(i64::MAX)),
            dilation,
            channels_last: shape.has("nhwc") || shape.has("ndhwc"),
            flat,
        }
    }

    /// Checks that the result is not empty and can be counted.
    pub fn check(&self) -> Result<(), String> {
        let [d, h, w] = self.out;
        if self.out.contains(&0) {
            return Err("the dilated kernel is larger than the padded image, so the output is empty".to_owned());
        }
        match countable([self.n, self.c, d, h, w].into_iter().chain(self.kernel)) {
            true => Ok(()),
            false if self.flat => Err(format!("an output of {d} x {w} pixels is too large for 64 bits")),
            false => Err(format!("an output of {d} x {h} x {w} voxels is too large for 64 bits")),
        }
    }

    /// Convolution that computes the image's gradient from the result's, for a stride of one. Its filter is reversed along every
    /// axis.
    pub fn transposed(&self) -> Volume {
        let mut pad = self.pad;
        for (axis, pad) in pad.iter_mut().enumerate() {
            *pad = (self.dilation[axis] * (self.kernel[axis] - 1)) as i64 - *pad;
        }
        Volume { image: self.out, out: self.image, pad, ..self.clone() }
    }

    pub fn taps(&self) -> u64 {
        self.kernel.iter().product()
    }

    /// Elements of the image, and of the result.
    pub fn elements(&self) -> [u64; 2] {
        [self.image, self.out].map(|extents| self.n * self.c * extents.iter().product::<u64>())
    }

    /// Elements of the image that are used: with a stride beyond the kernel's reach, some are not.
    pub fn elements_read(&self) -> u64 {
        let along = |axis: usize| match self.stride[axis] > self.kernel[axis] {
            true => (self.out[axis] * self.kernel[axis]).min(self.image[axis]),
            false => self.image[axis],
        };
        self.n * self.c * along(0) * along(1) * along(2)
    }

    /// Extents of the array of the image or the result.
    pub fn dims(&self, [d, h, w]: Three) -> Vec<u64> {
        let spatial = if self.flat { vec![d, w] } else { vec![d, h, w] };
        match self.channels_last {
            true => [vec![self.n], spatial, vec![self.c]].concat(),
            false => [vec![self.n, self.c], spatial].concat(),
        }
    }

    /// Extents of the array of filters.
    pub fn filter_dims(&self) -> Vec<u64> {
        let [d, h, w] = self.kernel;
        let taps = if self.flat { vec![d, w] } else { vec![d, h, w] };
        if self.channels_last { [taps, vec![self.c]].concat() } else { [vec![self.c], taps].concat() }
    }

    /// Elements of a row of the image or the result: its fastest extent.
    pub fn row(&self, extents: Three) -> u64 {
        if self.channels_last { self.c } else { extents[2] }
    }

    /// Example, channel, and position of an element of a row.
    pub fn place(&self, [d, h, w]: Three, row: u64, lane: u64) -> (u64, u64, Three) {
        match self.channels_last {
            true => (row / (d * h * w), lane, [row / (h * w) % d, row / w % h, row % w]),
            false => (row / (self.c * d * h), row / (d * h) % self.c, [row / h % d, row % h, lane]),
        }
    }

    /// Index of an element of the image or the result.
    pub fn at(&self, [d, h, w]: Three, (n, c, [z, y, x]): (u64, u64, Three)) -> u64 {
        match self.channels_last {
            true => (((n * d + z) * h + y) * w + x) * self.c + c,
            false => (((n * self.c + c) * d + z) * h + y) * w + x,
        }
    }

    /// Index of a tap.
    pub fn tap_at(&self, c: u64, [i, j, k]: Three) -> u64 {
        let [d, h, w] = self.kernel;
        match self.channels_last {
            true => ((i * h + j) * w + k) * self.c + c,
            false => ((c * d + i) * h + j) * w + k,
        }
    }

    /// Every tap, in the order of the array.
    pub fn each_tap(&self) -> impl Iterator<Item = Three> + use<> {
        let [d, h, w] = self.kernel;
        (0..d * h * w).map(move |tap| [tap / (h * w), tap / w % h, tap % w])
    }

    /// Image position under a tap for an element of the result, if it is inside the image.
    pub fn input_position(&self, out: Three, tap: Three) -> Option<Three> {
        let mut place = [0; 3];
        for axis in 0..3 {
            let padded = out[axis] * self.stride[axis] + tap[axis] * self.dilation[axis];
            let at = padded.checked_add_signed(-self.pad[axis])?;
            if at >= self.image[axis] {
                return None;
            }
            place[axis] = at;
        }
        Some(place)
    }

    /// Result element that has this tap on this image element, if there is one.
    pub fn output_position(&self, image: Three, tap: Three) -> Option<Three> {
        let mut place = [0; 3];
        for axis in 0..3 {
            let padded = image[axis].checked_add_signed(self.pad[axis])?;
            let from = padded.checked_sub(tap[axis] * self.dilation[axis])?;
            if !from.is_multiple_of(self.stride[axis]) || from / self.stride[axis] >= self.out[axis] {
                return None;
            }
            place[axis] = from / self.stride[axis];
        }
        Some(place)
    }

    /// Kernel constants of the convolution. Padding wraps around, as do the positions that it is subtracted from.
    pub fn consts(&self) -> Vec<(&'static str, u32)> {
        const NAMES: [[&str; 3]; 6] = [
            ["ID", "IH", "IW"],
            ["OD", "OH", "OW"],
            ["KD", "KH", "KW"],
            ["SD", "SH", "SW"],
            ["LD", "LH", "LW"],
            ["PD", "PH", "PW"],
        ];
        let values = [self.image, self.out, self.kernel, self.stride, self.dilation, self.pad.map(|p| p as u64)];
        let each = NAMES.iter().flatten().copied().zip(values.iter().flatten().map(|value| *value as u32));
        [("N", self.n as u32), ("C", self.c as u32)].into_iter().chain(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use parallax_ir::Problem;
    use parallax_schema::case::Direction;

    fn volume(workload: &str, shape: &str) -> Volume {
        let found = find(workload).expect("registered");
        let problem = Problem::new(found, Direction::Fwd, shape, parallax_schema::case::DType::F32).expect("valid");
        Volume::new(&problem.shape)
    }

    #[test]
    fn two_dimensions_are_three_with_a_middle_of_one() {
        let flat = volume("depthwise_conv2d", "n2,c3,h7,w5,k3,kw2,s2,p1,nchw");
        assert_eq!((flat.image, flat.out), ([7, 1, 5], [4, 1, 3]));
        assert_eq!((flat.dims(flat.image), flat.filter_dims()), (vec![2, 3, 7, 5], vec![3, 3, 2]));
        let last = volume("depthwise_conv3d", "n2,c3,d4,h5,w6,k2,ndhwc");
        assert_eq!((last.dims(last.out), last.filter_dims()), (vec![2, 3, 4, 5, 3], vec![2, 2, 2, 3]));
    }

    #[test]
    fn over_is_the_inverse_of_under() {
        for shape in
            ["n1,c1,d5,h6,w7,k3,kw2,s2,p1,l2,ncdhw", "n1,c1,d4,h3,w5,k2,p2,ncdhw", "n1,c1,d7,h7,w7,k3,s4,ncdhw"]
        {
            let volume = volume("depthwise_conv3d", shape);
            let each = |[d, h, w]: Three| (0..d * h * w).map(move |at| [at / (h * w), at / w % h, at % w]);
            for tap in volume.each_tap() {
                let forth: Vec<_> =
                    each(volume.out).filter_map(|o| Some((volume.input_position(o, tap)?, o))).collect();
                let mut back: Vec<_> =
                    each(volume.image).filter_map(|i| Some((i, volume.output_position(i, tap)?))).collect();
                back.sort_by_key(|(_, out)| *out);
                assert_eq!(forth, back, "{shape} {tap:?}");
            }
        }
    }

    #[test]
    fn the_transposed_reads_what_the_image_is_written_from() {
        let of = volume("depthwise_conv3d", "n1,c1,d5,h6,w7,k3,p1,l2,ncdhw");
        let transposed = of.transposed();
        assert_eq!((transposed.pad, transposed.transposed()), ([3; 3], of.clone()));
        let reversed = |tap: Three| [0, 1, 2].map(|axis| of.kernel[axis] - 1 - tap[axis]);
        for tap in of.each_tap() {
            assert_eq!(transposed.input_position([2, 3, 1], tap), of.output_position([2, 3, 1], reversed(tap)));
        }
    }
}

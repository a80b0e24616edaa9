//! Geometry of convolutions in two or three dimensions: extents, memory layout of tensors, and constants of kernels. Two
//! dimensions are three with an unpadded depth of one.

use super::{Shape, Stage, countable, indexable};

/// Convolution (cross-correlation, as in every deep-learning framework), with all values of its shape resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv {
    /// Number of images.
    pub images: u64,
    /// Channels of the input, and of the output.
    pub channels: [u64; 2],
    /// Channel groups that are computed independently.
    pub groups: u64,
    /// Depth, height and width of an image.
    pub image: [u64; 3],
    /// Depth, height and width of the kernel.
    pub kernel: [u64; 3],
    /// Zero padding on either side of depth, height and width, in elements.
    pub pad: [u64; 3],
    /// Distance of neighbouring outputs, in elements of the image.
    pub stride: u64,
    /// Distance of neighbouring taps, in elements of the image.
    pub dilation: u64,
    /// Whether channels are the fastest index of images, and of the kernel within an output channel.
    pub last: bool,
    /// Whether it has two dimensions.
    pub flat: bool,
}

/// Exclusive upper bound of extents with padding. Kernels detect coordinates outside by wrap-around.
const MOST_EXTENT: u64 = 1 << 30;

impl Conv {
    /// Returns the convolution of a shape with the axes `n`, `c`, `m`, `h`, `w`, `k`, `kw`, `s`, `p`, `l`, `g`. Three dimensions
    /// add `d` and `kd`.
    pub fn new(shape: &Shape) -> Conv {
        Conv::with(shape, shape["m"], shape["g"])
    }

    /// Returns the convolution of a depthwise shape, which has no axes `m` and `g`. Every channel is its own group.
    pub fn depthwise(shape: &Shape) -> Conv {
        Conv::with(shape, shape["c"], shape["c"])
    }

    fn with(shape: &Shape, results: u64, groups: u64) -> Conv {
        let flat = !shape.extents().iter().any(|(key, _)| *key == "d");
        let deep = |key| if flat { 1 } else { shape[key] };
        Conv {
            images: shape["n"],
            channels: [shape["c"], results],
            groups,
            image: [deep("d"), shape["h"], shape["w"]],
            kernel: [deep("kd"), shape["k"], shape["kw"]],
            pad: [if flat { 0 } else { shape["p"] }, shape["p"], shape["p"]],
            stride: shape["s"],
            dilation: shape["l"],
            last: shape.has("nhwc") || shape.has("ndhwc"),
            flat,
        }
    }

    /// Returns a pointwise convolution in three dimensions: an output channel sums the input channels at the same position.
    pub fn pointwise(images: u64, channels: [u64; 2], image: [u64; 3], last: bool) -> Conv {
        let (kernel, pad) = ([1; 3], [0; 3]);
        Conv { images, channels, groups: 1, image, kernel, pad, stride: 1, dilation: 1, last, flat: false }
    }

    /// Depth, height and width of the output; zero where the dilated kernel does not fit into the padded image.
    pub fn out(&self) -> [u64; 3] {
        [0, 1, 2].map(|i| {
            let reach = self.dilation * (self.kernel[i] - 1) + 1;
            (self.image[i] + 2 * self.pad[i]).checked_sub(reach).map_or(0, |room| room / self.stride + 1)
        })
    }

    /// Returns the convolution that computes the input's gradient from the result's, with kernels reversed along each axis. `None`
    /// with a stride, and where the padding exceeds the kernel's reach.
    pub fn transposed(&self) -> Option<Conv> {
        let mut pad = [0; 3];
        for (axis, pad) in pad.iter_mut().enumerate() {
            *pad = (self.dilation * (self.kernel[axis] - 1)).checked_sub(self.pad[axis])?;
        }
        let [c, m] = self.channels;
        (self.stride == 1).then(|| Conv { channels: [m, c], image: self.out(), pad, ..*self })
    }

    /// Checks whether the operation is defined and countable.
    ///
    /// # Errors
    /// Reason why it is not.
    pub fn validate(&self) -> Result<(), String> {
        let [c, m] = self.channels;
        if !c.is_multiple_of(self.groups) || !m.is_multiple_of(self.groups) {
            return Err(format!("{} groups must divide {c} input and {m} output channels", self.groups));
        }
        let far = [0, 1, 2].into_iter().find(|i| {
            self.image[*i] + 2 * self.pad[*i] >= MOST_EXTENT || self.dilation * self.kernel[*i] >= MOST_EXTENT
        });
        if far.is_some() || self.stride >= MOST_EXTENT {
            return Err(format!("an image with its padding, a dilated kernel and a stride stay below {MOST_EXTENT}"));
        }
        let out = self.out();
        if out.contains(&0) {
            return Err("the dilated kernel is larger than the padded image, so the output is empty".to_owned());
        }
        let all = [self.images, m, c / self.groups].into_iter().chain(out).chain(self.kernel);
        if !countable(all) {
            return Err("more operations than can be counted in 64 bits".to_owned());
        }
        [self.x_dims(), self.w_dims(), self.out_dims()].iter().try_for_each(|dims| indexable(dims.iter().product()))
    }

    /// Channels per group of the input, and of the output.
    pub fn group_channels(&self) -> [u64; 2] {
        self.channels.map(|channels| channels / self.groups)
    }

    /// Number of positions of the kernel.
    pub fn taps(&self) -> u64 {
        self.kernel.iter().product()
    }

    /// Number of positions of all images, and of all outputs.
    pub fn pixels(&self) -> [u64; 2] {
        [self.image, self.out()].map(|extents| self.images * extents.iter().product::<u64>())
    }

    /// Number of terms of an output element, with those in the padding.
    pub fn terms(&self) -> u64 {
        self.group_channels()[0] * self.taps()
    }

    /// Number of operations of one direction, by the usual count: the border is included.
    pub fn flops(&self) -> u64 {
        2 * self.channels[1] * self.pixels()[1] * self.terms()
    }

    /// Factor by which tiles of `square` × `square` results reduce the multiplications that [`Conv::flops`] counts. For a kernel
    /// of r × r it is `m²r²` over `(m + r − 1)²` (Winograd's F(m×m, r×r): Lavin and Gray 2016). It is one in three dimensions,
    /// with a stride, and with dilation, where the algorithm does not apply.
    pub fn fewer_by_squares(&self, square: u64) -> f64 {
        let [depth, height, width] = self.kernel;
        if depth != 1 || self.image[0] != 1 || self.stride != 1 || self.dilation != 1 {
            return 1.0;
        }
        let along = |taps: u64| (square * taps) as f64 / (square + taps - 1) as f64;
        along(height) * along(width)
    }

    /// Returns the entries of its two or three dimensions.
    pub fn dimensions<'a, T>(&self, of: &'a [T; 3]) -> &'a [T] {
        &of[usize::from(self.flat)..]
    }

    /// Extents, slowest first, of a tensor with these positions.
    fn dims(&self, first: u64, channels: u64, extents: [u64; 3]) -> Vec<u64> {
        let extents = self.dimensions(&extents);
        match self.last {
            true => [&[first], extents, &[channels]].concat(),
            false => [&[first, channels], extents].concat(),
        }
    }

    /// Extents of the input, slowest first.
    pub fn x_dims(&self) -> Vec<u64> {
        self.dims(self.images, self.channels[0], self.image)
    }

    /// Extents of the kernel, slowest first: an image per output channel, of the input channels of its group.
    pub fn w_dims(&self) -> Vec<u64> {
        self.dims(self.channels[1], self.group_channels()[0], self.kernel)
    }

    /// Extents of the output, slowest first.
    pub fn out_dims(&self) -> Vec<u64> {
        self.dims(self.images, self.channels[1], self.out())
    }

    /// Index of an element in a tensor of this number of channels and these positions.
    fn at(&self, [first, channel]: [u64; 2], channels: u64, at: [u64; 3], extents: [u64; 3]) -> u64 {
        let [_, height, width] = extents;
        let position = (at[0] * height + at[1]) * width + at[2];
        let positions: u64 = extents.iter().product();
        match self.last {
            true => (first * positions + position) * channels + channel,
            false => (first * channels + channel) * positions + position,
        }
    }

    /// Inverse of `at`: first index, channel and position of an element at a place.
    fn split_index(&self, place: u64, channels: u64, extents: [u64; 3]) -> ([u64; 2], [u64; 3]) {
        let positions: u64 = extents.iter().product();
        let (first, channel, at) = match self.last {
            true => (place / channels / positions, place % channels, place / channels % positions),
            false => (place / positions / channels, place / positions % channels, place % positions),
        };
        ([first, channel], position(at, extents))
    }

    /// Image, channel and position of an element of the output.
    pub fn out_index(&self, place: u64) -> ([u64; 2], [u64; 3]) {
        self.split_index(place, self.channels[1], self.out())
    }

    /// Returns the function from the index of an element of the output to its channel.
    pub fn out_channel(&self) -> impl Fn(usize) -> usize + use<> {
        let (channels, run) = (self.channels[1] as usize, self.run());
        move |place| place / run % channels
    }

    /// Number of neighbouring elements of the output that have one channel.
    pub fn run(&self) -> usize {
        if self.last { 1 } else { self.out().iter().product::<u64>() as usize }
    }

    /// Index of an element of the input, from image and channel, and position.
    pub fn x_at(&self, of: [u64; 2], at: [u64; 3]) -> u64 {
        self.at(of, self.channels[0], at, self.image)
    }

    /// Index of a weight, from output channel and input channel within the group, and tap.
    pub fn w_at(&self, of: [u64; 2], tap: [u64; 3]) -> u64 {
        self.at(of, self.group_channels()[0], tap, self.kernel)
    }

    /// Position of the image under a tap at a position of the output; `None` in the padding.
    pub fn input_position(&self, out: [u64; 3], tap: [u64; 3]) -> Option<[u64; 3]> {
        let mut found = [0; 3];
        for i in 0..3 {
            let padded = out[i] * self.stride + tap[i] * self.dilation;
            found[i] = padded.checked_sub(self.pad[i]).filter(|at| *at < self.image[i])?;
        }
        Some(found)
    }

    /// Image, channel and position of an element of the input.
    pub fn x_index(&self, place: u64) -> ([u64; 2], [u64; 3]) {
        self.split_index(place, self.channels[0], self.image)
    }

    /// Output channel, input channel within the group, and tap of a weight.
    pub fn w_index(&self, place: u64) -> ([u64; 2], [u64; 3]) {
        self.split_index(place, self.group_channels()[0], self.kernel)
    }

    /// Index of an element of the output, from image and channel, and position.
    pub fn out_at(&self, of: [u64; 2], at: [u64; 3]) -> u64 {
        self.at(of, self.channels[1], at, self.out())
    }

    /// Positions of the output, in memory order.
    pub fn every_output(&self) -> impl Iterator<Item = [u64; 3]> + use<> {
        positions(self.out())
    }

    /// Position of the output that has a position of the image under a tap, if any.
    pub fn output_position(&self, at: [u64; 3], tap: [u64; 3]) -> Option<[u64; 3]> {
        let (out, mut found) = (self.out(), [0; 3]);
        for i in 0..3 {
            let apart = (at[i] + self.pad[i]).checked_sub(tap[i] * self.dilation)?;
            found[i] = Some(apart / self.stride).filter(|at| apart.is_multiple_of(self.stride) && *at < out[i])?;
        }
        Some(found)
    }

    /// Taps, in memory order.
    pub fn every_tap(&self) -> impl Iterator<Item = [u64; 3]> + use<> {
        positions(self.kernel)
    }

    /// Adds the constants of all convolution sources to a stage.
    pub fn with_consts(&self, stage: Stage) -> Stage {
        let [c, m] = self.group_channels();
        let [kd, kh, kw] = self.kernel;
        let extents = [
            ("IMAGES", self.images),
            ("GROUPS", self.groups),
            ("IN_C", c),
            ("OUT_C", m),
            ("KD", kd),
            ("KH", kh),
            ("KW", kw),
            ("STRIDE", self.stride),
            ("DILATION", self.dilation),
            ("PAD_D", self.pad[0]),
            ("PAD", self.pad[1]),
        ];
        stage.consts(&extents.map(|(name, value)| (name, value as u32))).consts(&[("LAST", self.last)])
    }
}

/// Positions within extents, the last one fastest.
fn positions(extents: [u64; 3]) -> impl Iterator<Item = [u64; 3]> + use<> {
    (0..extents.iter().product()).map(move |index| position(index, extents))
}

/// Position of an index within extents, the last one fastest.
pub fn position(index: u64, [_, height, width]: [u64; 3]) -> [u64; 3] {
    [index / (height * width), index / width % height, index % width]
}

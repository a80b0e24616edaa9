//! What the library is told of a convolution, and what its answers are called: plain numbers.

use std::ffi::c_int;

use cudarc::cudnn::sys::{
    cudnnConvolutionFwdAlgo_t as Forward, cudnnDataType_t as Type, cudnnDeterminism_t as Determinism,
    cudnnMathType_t as Math, cudnnTensorFormat_t as Format,
};
use parallax_core::device::BackendError;
use parallax_core::suite::{Conv, ConvPass, DType};

use super::api::Offer;

/// A tensor: its extents as the library has them, example, channel, positions, and the distance of neighbours along each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) extents: Vec<c_int>,
    pub(super) distances: Vec<c_int>,
}

/// All that describes a convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) image: Tensor,
    pub(super) result: Tensor,
    /// Numbers of the output channels.
    pub(super) bias: Tensor,
    /// Output channels, channels of a group, taps.
    pub(super) kernels: Vec<c_int>,
    pub(super) order: c_int,
    pub(super) padding: Vec<c_int>,
    pub(super) stride: Vec<c_int>,
    pub(super) dilation: Vec<c_int>,
    pub(super) groups: c_int,
}

impl Description {
    /// Of a convolution.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] when a number is beyond what the library counts in.
    pub(super) fn of(conv: &Conv) -> Result<Description, BackendError> {
        let spatial = |extents: [u64; 3]| numbers(conv.dimensions(&extents).iter().copied());
        let around = |first: u64, second: u64, extents: [u64; 3]| {
            numbers([first, second].into_iter().chain(conv.dimensions(&extents).iter().copied()))
        };
        let tensor = |channels: u64, extents: [u64; 3]| {
            let inside = conv.dimensions(&extents);
            let positions: u64 = inside.iter().product();
            let (channel, position) = if conv.last { (1, channels) } else { (positions, 1) };
            let within = (0..inside.len()).map(|i| position * inside[i + 1..].iter().product::<u64>());
            let distances = [channels * positions, channel].into_iter().chain(within);
            Ok::<_, BackendError>(Tensor {
                extents: around(conv.images, channels, extents)?,
                distances: numbers(distances)?,
            })
        };
        let [channels, results] = conv.channels;
        let order = if conv.last { Format::CUDNN_TENSOR_NHWC } else { Format::CUDNN_TENSOR_NCHW };
        Ok(Description {
            image: tensor(channels, conv.image)?,
            result: tensor(results, conv.out())?,
            bias: Tensor { extents: around(1, results, [1; 3])?, distances: around(results, 1, [1; 3])? },
            kernels: around(results, conv.of_group()[0], conv.kernel)?,
            order: order as c_int,
            padding: spatial(conv.pad)?,
            stride: spatial([conv.stride; 3])?,
            dilation: spatial([conv.dilation; 3])?,
            groups: number(conv.groups)?,
        })
    }
}

fn numbers(values: impl Iterator<Item = u64>) -> Result<Vec<c_int>, BackendError> {
    values.map(number).collect()
}

fn number(value: u64) -> Result<c_int, BackendError> {
    let beyond = || BackendError::Unsupported(format!("cuDNN counts in 32 bits with a sign, {value} is beyond that"));
    c_int::try_from(value).map_err(|_| beyond())
}

/// `cudnnDataType_t`.
pub(super) fn storage(dtype: DType) -> c_int {
    let storage = match dtype {
        DType::F32 => Type::CUDNN_DATA_FLOAT,
        DType::F16 => Type::CUDNN_DATA_HALF,
        DType::BF16 => Type::CUDNN_DATA_BFLOAT16,
    };
    storage as c_int
}

/// What the heuristic is asked for: plain f32 for f32, not the tensor cores' 19 bits; tensor cores for factors of 16 bits.
pub(super) fn math(dtype: DType) -> c_int {
    let math = match dtype {
        DType::F32 => Math::CUDNN_FMA_MATH,
        DType::F16 | DType::BF16 => Math::CUDNN_TENSOR_OP_MATH,
    };
    math as c_int
}

/// A way to compute it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) algorithm: c_int,
    pub(super) math: c_int,
    /// Bias and activation belong to the convolution's own call. Otherwise they follow by calls of their own.
    pub(super) fused: bool,
}

/// The ways of a pass that offers amount to, in the order of the heuristic.
pub(super) fn ways(offers: &[Offer], pass: ConvPass, dtype: DType) -> Vec<Way> {
    let precomputed = Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM as c_int;
    let mut found = Vec::new();
    let plain = dtype == DType::F32;
    // What differs from run to run adds sums up in the element type, each time rounded: f32 can bear that.
    let differs = |offer: &Offer| offer.determinism == Determinism::CUDNN_NON_DETERMINISTIC as c_int;
    for offer in offers.iter().filter(|offer| offer.status == 0 && (plain || !differs(offer))) {
        // What would compute f32 on tensor cores is not what was asked for.
        let math = if plain { math(dtype) } else { offer.math };
        let (bias, relu) = match pass {
            ConvPass::Forward { bias, relu } => (bias, relu),
            ConvPass::Image | ConvPass::Kernels => (false, false),
        };
        // The fused call always adds a bias, and leaves out the activation for one algorithm alone.
        let fused = bias && (relu || offer.algorithm == precomputed);
        // Separate calls round to the element type before the bias is added, which f32 can bear.
        let separate = !bias || plain;
        for fused in [fused.then_some(true), separate.then_some(false)].into_iter().flatten() {
            let way = Way { algorithm: offer.algorithm, math, fused };
            if !found.contains(&way) {
                found.push(way);
            }
        }
    }
    found
}

impl Way {
    /// Its name: NVIDIA's for the algorithm.
    pub(super) fn name(self, pass: ConvPass) -> String {
        const FORWARD: &[&str] = &[
            "IMPLICIT_GEMM",
            "IMPLICIT_PRECOMP_GEMM",
            "GEMM",
            "DIRECT",
            "FFT",
            "FFT_TILING",
            "WINOGRAD",
            "WINOGRAD_NONFUSED",
        ];
        const IMAGE: &[&str] = &["ALGO_0", "ALGO_1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"];
        const KERNELS: &[&str] = &["ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING"];
        let (call, names) = match pass {
            ConvPass::Forward { .. } => ("FWD", FORWARD),
            ConvPass::Image => ("BWD_DATA", IMAGE),
            ConvPass::Kernels => ("BWD_FILTER", KERNELS),
        };
        let known = usize::try_from(self.algorithm).ok().and_then(|index| names.get(index));
        let name = known.map_or_else(|| format!("algorithm {}", self.algorithm), |name| (*name).to_owned());
        let math = match self.math {
            of if of == Math::CUDNN_FMA_MATH as c_int => " without tensor cores",
            of if of == Math::CUDNN_DEFAULT_MATH as c_int => "",
            _ => " on tensor cores",
        };
        format!("{call} {name}{math}{}", if self.fused { ", fused" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::cudnn::sys::{cudnnConvolutionBwdDataAlgo_t as Image, cudnnConvolutionBwdFilterAlgo_t as Kernels};
    use parallax_core::suite::Case;

    fn described(case: &str) -> Description {
        let case: Case = format!("{case}/f32/direct").parse().expect("valid");
        let depthwise = case.to_string().starts_with("depthwise");
        let of = if depthwise { Conv::depthwise } else { Conv::of };
        Description::of(&of(&case.problem.shape)).expect("small numbers")
    }

    #[test]
    fn tensors_are_described_in_either_order() {
        let first = described("conv2d/fwd/n2,c6,m4,h7,w8,k3,kw2,s2,p1,l2,g2,nchw");
        assert_eq!(first.image, Tensor { extents: vec![2, 6, 7, 8], distances: vec![336, 56, 8, 1] });
        assert_eq!(first.result.extents, [2, 4, 3, 4]);
        assert_eq!((first.kernels, first.groups), (vec![4, 3, 3, 2], 2));
        assert_eq!((first.padding, first.stride, first.dilation), (vec![1, 1], vec![2, 2], vec![2, 2]));
        assert_eq!(first.bias, Tensor { extents: vec![1, 4, 1, 1], distances: vec![4, 1, 1, 1] });
        let last = described("conv3d/fwd/n2,c3,m5,d4,h6,k2,ndhwc");
        assert_eq!(last.image, Tensor { extents: vec![2, 3, 4, 6, 6], distances: vec![432, 1, 108, 18, 3] });
        assert_eq!((last.result.extents, last.kernels), (vec![2, 5, 3, 5, 5], vec![5, 3, 2, 2, 2]));
        assert_eq!((first.order, last.order), (0, 1));
    }

    #[test]
    fn the_distances_are_those_of_the_arrays() {
        for case in
            ["conv2d/fwd/n2,c6,m4,h7,w8,k3,kw2,s2,p1,l2,g2,nhwc", "depthwise_conv3d/fwd/n2,c3,d4,h5,w6,k2,ncdhw"]
        {
            let parsed: Case = format!("{case}/f32/direct").parse().expect("valid");
            let flat = case.starts_with("conv2d");
            let conv = if flat { Conv::of(&parsed.problem.shape) } else { Conv::depthwise(&parsed.problem.shape) };
            let Description { image, .. } = described(case);
            let at = |place: [u64; 5]| {
                let place = if flat { vec![place[0], place[1], place[3], place[4]] } else { place.to_vec() };
                place.iter().zip(&image.distances).map(|(at, step)| at * *step as u64).sum::<u64>()
            };
            for place in 0..conv.x_dims().iter().product() {
                let ([image, channel], [z, y, x]) = conv.of_x(place);
                assert_eq!(at([image, channel, z, y, x]), place, "{case}");
            }
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let case: Case = "conv2d/fwd/n1,c70000,m1,h200,k1,nchw/f32/direct".parse().expect("valid");
        let error = Description::of(&Conv::of(&case.problem.shape)).expect_err("2.8e9 elements");
        assert!(error.to_string().contains("2800000000 is beyond"), "{error}");
    }

    #[test]
    fn f32_stays_f32_and_a_bias_is_rounded_once() {
        let offer = |algorithm, math| Offer { algorithm, math, determinism: 1, ..Offer::default() };
        let failed = Offer { status: 3000, ..offer(7, 3) };
        let offers = [offer(1, 1), offer(1, 0), failed, offer(0, 0)];
        let plain = ConvPass::Forward { bias: false, relu: true };
        let way = |algorithm, math, fused| Way { algorithm, math, fused };
        assert_eq!(ways(&offers, plain, DType::F32), [way(1, 3, false), way(0, 3, false)]);
        assert_eq!(ways(&offers, plain, DType::F16), [way(1, 1, false), way(1, 0, false), way(0, 0, false)]);
        let biased = ConvPass::Forward { bias: true, relu: false };
        assert_eq!(ways(&offers, biased, DType::BF16), [way(1, 1, true), way(1, 0, true)]);
        assert_eq!(ways(&offers, biased, DType::F32), [way(1, 3, true), way(1, 3, false), way(0, 3, false)]);
        let both = ConvPass::Forward { bias: true, relu: true };
        assert_eq!(ways(&offers[3..], both, DType::F16), [way(0, 0, true)]);
        assert_eq!(ways(&offers[..1], ConvPass::Kernels, DType::F16), [way(1, 1, false)]);
        let differs = Offer { determinism: 0, ..offer(3, 1) };
        assert_eq!(ways(&[differs, offer(1, 1)], ConvPass::Kernels, DType::BF16), [way(1, 1, false)]);
        assert_eq!(ways(&[differs], ConvPass::Kernels, DType::F32), [way(3, 3, false)]);
    }

    #[test]
    fn algorithms_have_nvidias_names() {
        let name = |algorithm: c_int, pass| Way { algorithm, math: 3, fused: false }.name(pass);
        let forward = ConvPass::Forward { bias: false, relu: false };
        for algorithm in 0..Forward::CUDNN_CONVOLUTION_FWD_ALGO_COUNT as c_int {
            assert!(!name(algorithm, forward).contains("algorithm"), "{algorithm}");
        }
        let is = |told: String, header: String| {
            let (call, rest) = told.split_once(' ').expect("two words");
            let algorithm = rest.split(' ').next().expect("a word");
            let prefix = format!("CUDNN_CONVOLUTION_{call}_");
            let known = header.strip_prefix(&prefix).expect("of this call");
            assert!(known == algorithm || known == format!("ALGO_{algorithm}"), "{told}: {header}");
        };
        is(name(1, forward), format!("{:?}", Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM));
        is(name(7, forward), format!("{:?}", Forward::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED));
        is(name(1, ConvPass::Image), format!("{:?}", Image::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1));
        is(name(4, ConvPass::Image), format!("{:?}", Image::CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD));
        is(name(3, ConvPass::Kernels), format!("{:?}", Kernels::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3));
        is(name(6, ConvPass::Kernels), format!("{:?}", Kernels::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING));
        assert_eq!(name(99, ConvPass::Image), "BWD_DATA algorithm 99 without tensor cores");
        let fused = Way { algorithm: 1, math: 1, fused: true };
        assert_eq!(fused.name(forward), "FWD IMPLICIT_PRECOMP_GEMM on tensor cores, fused");
    }
}

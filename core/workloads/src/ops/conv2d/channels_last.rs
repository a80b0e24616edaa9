//! Convolutions of channels-first tensors on tensor cores, through channels-last copies.
//!
//! Tensor cores take neighbouring terms of a sum, and kernels that read them read channels-last tensors in vectors. Pixels and kernels
//! are transposed before the convolution, results after it. Each element moves once more in each direction: memory traffic of
//! `2(x + w + out)`, beside `x + w + out` of the convolution.

use parallax_ir::conv::Conv;
use parallax_ir::{BufferSpec, Elem, Gemm, Problem, Program};
use parallax_schema::device::{Caps, Dialect};

use super::super::transpose::Matrices;
use super::forward;
use super::stages::Gather;
use super::wgmma;

/// Scratch buffers of pixels, kernels and results with channels last.
const LAST: [&str; 3] = ["x_last", "w_last", "out_last"];

/// Convolution of the transposed tensors.
///
/// # Errors
/// Tensors whose channels are last already.
fn conv(p: &Problem) -> Result<Conv, String> {
    match Conv::new(&p.shape) {
        Conv { last: true, .. } => Err("channels are last already".to_owned()),
        conv => Ok(Conv { last: true, ..conv }),
    }
}

/// Checks that the variant can compute a problem on a device.
///
/// # Errors
/// Reason against it.
pub(super) fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    let conv = conv(p)?;
    match caps.dialect {
        Dialect::Cuda => wgmma::takes(&conv, p.dtype, caps),
        _ => Gemm::coopmat_available(p.dtype, caps),
    }
}

/// Buffers between the stages; none for channels-last problems.
pub(super) fn scratch(p: &Problem) -> Vec<BufferSpec> {
    let Ok(conv) = conv(p) else { return Vec::new() };
    let dims = [conv.x_dims(), conv.w_dims(), conv.out_dims()];
    LAST.iter().zip(dims).map(|(name, dims)| BufferSpec::scratch(name, Elem::Real, &dims)).collect()
}

/// Program of the four stages.
pub(super) fn program(p: &Problem, caps: &Caps) -> Program {
    let conv = conv(p).expect("available");
    let ([c, m], [c_group, _], [x, w, out]) = (conv.channels, conv.group_channels(), LAST);
    let [pixels, results] = [conv.image, conv.out()].map(|extents| extents.iter().product());
    let transposed =
        |count, rows, columns, buffers| Matrices { count, rows, columns, dtype: p.dtype }.stage(caps, buffers);
    let gather = Gather { conv, ..forward::gather(p) };
    let products = match caps.dialect {
        Dialect::Cuda => wgmma::stage(gather, caps, LAST),
        _ => gather.coopmat(caps, LAST),
    };
    Program {
        stages: vec![
            transposed(conv.images, c, pixels, ["x", x]),
            transposed(m, c_group, conv.taps(), ["w", w]),
            products.cost(forward::cost(p)),
            transposed(conv.images, results, m, [out, "out"]),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{find, parse_case};
    use parallax_schema::testing::caps;

    #[test]
    fn tensors_are_transposed_once_in_each_direction() {
        let case = "conv2d/fwd/n2,c16,m24,h9,w7,k3,p1,g2,nchw,bias/f16/channels_last";
        let case = parse_case(case).expect("a case");
        let stages = program(&case.problem, &caps()).stages;
        let moved: Vec<_> = stages.iter().map(|stage| stage.cost.read.0).collect();
        let [x, w, out] = [2 * 16 * 63, 24 * 8 * 9, 2 * 24 * 63].map(|elements| 2 * elements);
        assert_eq!([moved[0], moved[1], moved[3]], [x, w, out]);
        assert!(find("conv3d").expect("a workload").forms[0].variants.iter().any(|v| v.name == "channels_last"));
    }

    #[test]
    fn channels_that_are_last_stay() {
        let case = parse_case("conv2d/fwd/n1,c8,h8,k3,nhwc/f16/channels_last").expect("a case");
        assert!(available(&case.problem, &caps()).is_err_and(|why| why.contains("last already")));
        assert!(scratch(&case.problem).is_empty());
    }
}

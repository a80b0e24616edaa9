//! Convolution of CubeK.

use parallax_ir::Access::{Read, Write};
use parallax_ir::conv::Conv;
use parallax_ir::{Problem, Program, Stage, Variant, cube_available};
use parallax_schema::case::DType;
use parallax_schema::device::Caps;

/// Variant that runs CubeK's direct kernel.
pub(super) fn variant() -> Variant {
    Variant::cubek("CubeK's direct kernel: a thread for some neighbouring channels of an output pixel", program)
        .available(|p, caps| cube_available(p, caps).and_then(|()| takes(p)))
}

/// Checks that CubeK has such a convolution.
fn takes(p: &Problem) -> Result<(), String> {
    if !Conv::new(&p.shape).last {
        return Err("CubeK's convolutions have channels last (`nhwc`)".to_owned());
    }
    if p.dtype != DType::F32 {
        return Err(
            "CubeK's direct convolution rounds products of 16-bit floats to 16 bits, before they are summed".to_owned()
        );
    }
    match p.shape.has("bias") || p.shape.has("relu") {
        true => Err("CubeK's direct convolution runs without an epilogue here".to_owned()),
        false => Ok(()),
    }
}

fn program(p: &Problem, caps: &Caps) -> Program {
    let conv = Conv::new(&p.shape);
    let ([_, h, w], [_, oh, ow], [_, kh, kw], [_, pad_h, pad_w]) = (conv.image, conv.out(), conv.kernel, conv.pad);
    let [c, m] = conv.channels;
    let numbers = [
        ("N", conv.images),
        ("H", h),
        ("W", w),
        ("C", c),
        ("M", m),
        ("KH", kh),
        ("KW", kw),
        ("OF_GROUP", conv.group_channels()[0]),
        ("OH", oh),
        ("OW", ow),
        ("GROUPS", conv.groups),
        ("STRIDE_H", conv.stride),
        ("STRIDE_W", conv.stride),
        ("PAD_H", pad_h),
        ("PAD_W", pad_w),
        ("DILATION_H", conv.dilation),
        ("DILATION_W", conv.dilation),
    ];
    Stage::cubek("cubek_conv2d", caps)
        .consts(&numbers.map(|(name, value)| (name, value as u32)))
        .args([("x", Read), ("w", Read), ("out", Write)])
        .cost(p.cost())
        .into()
}

//! Tests over known workloads: calls into a vendor's libraries, as data: operation and operands.

use parallax_ir::*;
use parallax_ir::{Access, Arg, StageOp};
use parallax_schema::case::DType;
use parallax_schema::testing::caps;
use parallax_schema::units::Bytes;
use parallax_workloads::parse_case;

fn call(pass: ConvPass) -> Convolution {
    let case = parse_case("conv2d/fwd/n1,c4,h5,k3,p1,nchw/f32/direct").expect("valid");
    Convolution { conv: Conv::new(&case.problem.shape), pass, choice: Choice::Heuristic }
}

#[test]
fn the_bias_is_an_argument_where_there_is_one() {
    let names = |pass| {
        let stage = call(pass).stage(["a", "b", "c"]);
        let of = |arg: &Arg| (arg.buffer, arg.access == Access::Write);
        (stage.entry(), stage.args.iter().map(of).collect::<Vec<_>>())
    };
    let three = vec![("a", false), ("b", false), ("c", true)];
    let four = [&three[..], &[("bias", false)]].concat();
    assert_eq!(names(ConvPass::Forward { bias: false, relu: true }), ("cudnn_forward", three.clone()));
    assert_eq!(names(ConvPass::Forward { bias: true, relu: false }), ("cudnn_forward", four));
    assert_eq!(names(ConvPass::Image), ("cudnn_backward_data", three.clone()));
    assert_eq!(names(ConvPass::Kernels), ("cudnn_backward_filter", three));
}

#[test]
fn the_largest_workspace_of_a_program_counts_once() {
    let forward = call(ConvPass::Image).stage(["a", "b", "c"]);
    let library = Library::Gemm(Gemm::new(1, 1, 1), LibraryEpilogue::Plain);
    let gemm = Stage::library("product", library);
    let fill = Stage::fill("zeros", "out", 0);
    let of = |stages: &[&Stage]| Program { stages: stages.iter().copied().cloned().collect() }.workspace();
    assert_eq!(of(&[&fill]), Bytes(0));
    assert_eq!(of(&[&fill, &gemm, &gemm]), library.most_workspace());
    assert_eq!(of(&[&forward, &gemm]), Library::Conv(call(ConvPass::Image)).most_workspace());
}

#[test]
fn depthwise_kernels_are_groups_of_one_channel_and_turned_around_where_channels_are_last() {
    for (shape, workload, dims) in [
        ("n2,c6,h7,k3,kw2,p1,nchw", "depthwise_conv2d", vec![6, 1, 3, 2]),
        ("n2,c6,h7,k3,kw2,p1,nhwc", "depthwise_conv2d", vec![6, 3, 2, 1]),
        ("n2,c6,d7,k3,kw2,p1,ndhwc", "depthwise_conv3d", vec![6, 3, 3, 2, 1]),
    ] {
        let case = parse_case(&format!("{workload}/fwd/{shape}/f32/direct")).expect("valid");
        let conv = Conv::depthwise(&case.problem.shape);
        assert_eq!((conv.w_dims(), conv.groups), (dims, 6), "{shape}");
        let buffers = case.problem.buffers();
        let len = |name: &str| buffers.iter().find(|spec| spec.name == name).expect("a buffer").len;
        assert_eq!(conv.x_dims().iter().product::<u64>(), len("x"), "{shape}");
        assert_eq!(conv.out_dims().iter().product::<u64>(), len("out"), "{shape}");
        let there = transposed_kernels(&conv, true, DType::F32, &caps(), ["w", "kernels"]);
        let back = transposed_kernels(&conv, false, DType::F32, &caps(), ["kernels", "w"]);
        let constant = |stage: &Stage, wanted: &str| match &stage.work {
            StageOp::Kernel(kernel) => kernel.consts.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value),
            _ => None,
        };
        assert_eq!(constant(&there, "N1"), constant(&back, "N2"), "{shape}");
        assert_eq!(constant(&there, "TO2"), constant(&back, "FROM1"), "{shape}");
    }
}

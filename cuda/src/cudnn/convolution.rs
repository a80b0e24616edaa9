//! Graphs of convolutions and their gradients.

use parallax_ir::device::BackendError;
use parallax_ir::{Conv, ConvPass, Convolution};
use parallax_schema::case::DType;

use super::graph::{Element, Graph, Mode, Operation, Pass, Tensor, TensorSource, Window, dense, element};

/// Returns the graphs of a convolution, in order of preference. Arguments are those of [`ConvPass`], in order.
///
/// # Errors
/// [`BackendError::Unsupported`] where an extent is beyond the library's integers.
pub(super) fn graphs(wanted: &Convolution, dtype: DType) -> Result<Vec<Graph>, BackendError> {
    let (bias, relu) = match wanted.pass {
        ConvPass::Forward { bias, relu } => (bias.then_some(TensorSource::Argument(3)), relu),
        ConvPass::Image | ConvPass::Kernels => (None, false),
    };
    let mut graphs = vec![graph(wanted, dtype, bias, relu)?];
    if relu && bias.is_none() {
        // Engines without tensor cores support ReLU only after a bias: here zero for every channel.
        graphs.push(graph(wanted, dtype, Some(TensorSource::OwnFilled(0)), relu)?);
    }
    Ok(graphs)
}

/// Returns a graph with an optional bias from this source, and an optional ReLU after it.
fn graph(wanted: &Convolution, dtype: DType, bias: Option<TensorSource>, relu: bool) -> Result<Graph, BackendError> {
    let (conv, mut graph) = (&wanted.conv, Graph::default());
    let ([channels, results], stored) = (conv.channels, element(dtype));
    let of_image = around(conv.images, channels, conv, conv.image)?;
    let of_kernels = around(results, conv.group_channels()[0], conv, conv.kernel)?;
    let of_result = around(conv.images, results, conv, conv.out())?;
    let of_bias = around(1, results, conv, [1; 3])?;
    let tensor = |graph: &mut Graph, extents: &[i64], element, source| {
        let strides = strides(extents, conv.last);
        graph.tensor(Tensor { element, extents: extents.to_vec(), strides, source })
    };
    // Argument positions of image, kernels and result.
    let (pass, [image, kernels, result]) = match wanted.pass {
        ConvPass::Forward { .. } => (Pass::Result, [0, 1, 2]),
        ConvPass::Image => (Pass::Image, [2, 0, 1]),
        ConvPass::Kernels => (Pass::Kernels, [0, 2, 1]),
    };
    let image = tensor(&mut graph, &of_image, stored, TensorSource::Argument(image));
    let kernels = tensor(&mut graph, &of_kernels, stored, TensorSource::Argument(kernels));
    let result = tensor(&mut graph, &of_result, stored, TensorSource::Argument(result));
    let bias = bias.map(|source| tensor(&mut graph, &of_bias, stored, source));
    let spatial = |extents: [u64; 3]| integers(conv.dimensions(&extents).iter().copied());
    let (padding, stride, dilation) = (spatial(conv.pad)?, spatial([conv.stride; 3])?, spatial([conv.dilation; 3])?);
    let window = Window { padding, stride, dilation };

    // Epilogue of the convolution. Its sums stay in f32 until the last operation rounds them.
    let bias = bias.map(|bias| (Mode::CUDNN_POINTWISE_ADD, Some(bias)));
    let relu = relu.then_some((Mode::CUDNN_POINTWISE_RELU_FWD, None));
    let mut then = bias.into_iter().chain(relu).peekable();
    let next = |graph: &mut Graph, last: bool| match last {
        true => result,
        false => tensor(graph, &of_result, Element::CUDNN_DATA_FLOAT, TensorSource::Virtual),
    };
    let mut sums = next(&mut graph, then.peek().is_none());
    graph.operation(Operation::Convolution { pass, image, kernels, result: sums, window });
    while let Some((mode, other)) = then.next() {
        let after = next(&mut graph, then.peek().is_none());
        graph.pointwise_into(mode, sums, other, after);
        sums = after;
    }
    Ok(graph)
}

/// Returns the library's extents: `first`, `second`, and then the spatial extents.
fn around(first: u64, second: u64, conv: &Conv, positions: [u64; 3]) -> Result<Vec<i64>, BackendError> {
    integers([first, second].into_iter().chain(conv.dimensions(&positions).iter().copied()))
}

fn integers(values: impl Iterator<Item = u64>) -> Result<Vec<i64>, BackendError> {
    let integer = |value| {
        i64::try_from(value).map_err(|_| BackendError::Unsupported(format!("{value} is beyond cuDNN's integers")))
    };
    values.map(integer).collect()
}

/// Returns the strides of dense extents. With `last`, the channels (the second extent) are innermost.
fn strides(extents: &[i64], last: bool) -> Vec<i64> {
    if !last {
        return dense(extents);
    }
    let inside = dense(&extents[2..]);
    let positions: i64 = extents[2..].iter().product();
    [positions * extents[1], 1].into_iter().chain(inside.into_iter().map(|stride| stride * extents[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Choice;
    use parallax_workloads::parse_case;

    fn made(case: &str, pass: ConvPass) -> (Conv, Graph) {
        let case = parse_case(&format!("{case}/f32/direct")).expect("valid");
        let depthwise = case.to_string().starts_with("depthwise");
        let conv = if depthwise { Conv::depthwise(&case.problem.shape) } else { Conv::new(&case.problem.shape) };
        let graphs = graphs(&Convolution { conv, pass, choice: Choice::Heuristic }, DType::F16);
        (conv, graphs.expect("small numbers").swap_remove(0))
    }

    const PLAIN: ConvPass = ConvPass::Forward { bias: false, relu: false };

    #[test]
    fn tensors_are_described_in_either_order() {
        let (_, first) = made("conv2d/fwd/n2,c6,m4,h7,w8,k3,kw2,s2,p1,l2,g2,nchw", PLAIN);
        let [image, kernels, result] = first.tensors() else { panic!("three tensors") };
        assert_eq!((&image.extents[..], &image.strides[..]), (&[2, 6, 7, 8][..], &[336, 56, 8, 1][..]));
        assert_eq!((&kernels.extents[..], &result.extents[..]), (&[4, 3, 3, 2][..], &[2, 4, 3, 4][..]));
        let (_, last) = made("conv3d/fwd/n2,c3,m5,d4,h6,k2,ndhwc", PLAIN);
        let [image, kernels, result] = last.tensors() else { panic!("three tensors") };
        assert_eq!((&image.extents[..], &image.strides[..]), (&[2, 3, 4, 6, 6][..], &[432, 1, 108, 18, 3][..]));
        assert_eq!((&kernels.extents[..], &kernels.strides[..]), (&[5, 3, 2, 2, 2][..], &[24, 1, 12, 6, 3][..]));
        assert_eq!(result.extents, [2, 5, 3, 5, 5]);
    }

    #[test]
    fn the_strides_are_those_of_the_arrays() {
        for case in
            ["conv2d/fwd/n2,c6,m4,h7,w8,k3,kw2,s2,p1,l2,g2,nhwc", "depthwise_conv3d/fwd/n2,c3,d4,h5,w6,k2,ncdhw"]
        {
            let (conv, graph) = made(case, PLAIN);
            let image = &graph.tensors()[0];
            let at = |place: [u64; 5]| {
                let flat = image.extents.len() == 4;
                let place = if flat { vec![place[0], place[1], place[3], place[4]] } else { place.to_vec() };
                place.iter().zip(&image.strides).map(|(at, step)| at * *step as u64).sum::<u64>()
            };
            for place in 0..conv.x_dims().iter().product() {
                let ([image, channel], [z, y, x]) = conv.x_index(place);
                assert_eq!(at([image, channel, z, y, x]), place, "{case}");
            }
        }
    }

    #[test]
    fn bias_and_relu_take_sums_that_are_not_rounded() {
        let types = |bias, relu| {
            let (_, graph) = made("conv2d/fwd/n1,c3,h5,k3,p1,nhwc", ConvPass::Forward { bias, relu });
            let between = graph.tensors().iter().filter(|tensor| tensor.source == TensorSource::Virtual);
            between.map(|tensor| tensor.element).collect::<Vec<_>>()
        };
        assert_eq!(types(false, false), []);
        assert_eq!(types(true, false), [Element::CUDNN_DATA_FLOAT]);
        assert_eq!(types(false, true), [Element::CUDNN_DATA_FLOAT]);
        assert_eq!(types(true, true), [Element::CUDNN_DATA_FLOAT; 2]);
    }

    #[test]
    fn every_pass_writes_its_last_of_three_arguments() {
        for (pass, written) in
            [(PLAIN, [2, 4, 3, 3]), (ConvPass::Image, [2, 3, 5, 5]), (ConvPass::Kernels, [4, 3, 3, 3])]
        {
            let (_, graph) = made("conv2d/fwd/n2,c3,m4,h5,k3,nchw", pass);
            let of = |position| graph.tensors().iter().find(|tensor| tensor.source == TensorSource::Argument(position));
            assert_eq!(of(2).expect("three arguments").extents, written, "{pass:?}");
        }
    }
}

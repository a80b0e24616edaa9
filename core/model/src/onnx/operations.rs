//! Problems that stand for the nodes of a graph.

use parallax_schema::case::DType;

use super::fuse::{Fusion, Fusions};
use super::infer;
use super::node::{Node, axis};
use super::value::Value;
use super::windows;
use crate::problems::{self, Gemm, StandIn, movement, of_rows, product, unmatched};

/// Returns the problem of a node, or the reason why there is none.
pub fn stand_in(
    node: &Node,
    outputs: &[Option<&Value>],
    fusions: &Fusions,
    (place, opset, wanted): (usize, i64, Option<DType>),
) -> StandIn {
    let output = outputs.first().copied().flatten();
    if output.is_some_and(|output| output.constant) || matches!(node.operator, "Constant" | "Shape" | "Size") {
        return StandIn::free("it is known before the model runs");
    }
    let fusion = fusions.get(place);
    if let Some(Fusion::Part(reason)) = fusion {
        return StandIn::free(reason);
    }
    let own = node.proto.domain.as_deref().unwrap_or_default();
    if !matches!(own, "" | "ai.onnx" | "com.microsoft") {
        return unmatched(format!("operators of {own} are not known"), &[], 0, wanted);
    }
    let of_file = output.and_then(Value::dtype).or_else(|| node.input(0).and_then(Value::dtype));
    let read: Vec<u64> = node.inputs.iter().flatten().filter_map(|input| input.elements()).collect();
    let written = output.and_then(Value::elements);
    let gap = |reason: String| unmatched(reason, &read, written.unwrap_or(0), wanted.or(of_file));
    let Some(dtype) = of_file.map(|of_file| wanted.unwrap_or(of_file)) else {
        return gap(format!("{} works on an element type that the suite lacks", node.operator));
    };
    let Some(shape) = output.and_then(|output| output.shape.as_deref()) else {
        return gap(format!("the extents of {}'s output are not known", node.operator));
    };
    matched(node, fusion, shape, (dtype, opset)).unwrap_or_else(|| {
        let why = match node.operator {
            operator if infer::is_unary(operator) || is_binary(operator) => {
                format!("the suite has no element-wise {operator}")
            }
            operator => format!("the suite has no {operator} of these extents"),
        };
        gap(why)
    })
}

fn is_binary(operator: &str) -> bool {
    matches!(
        operator,
        "Add"
            | "Sub"
            | "Mul"
            | "Div"
            | "Pow"
            | "Mod"
            | "PRelu"
            | "Equal"
            | "Less"
            | "Greater"
            | "Min"
            | "Max"
            | "Sum"
            | "Where"
    )
}

/// Returns the problem of a node with known extents.
fn matched(node: &Node, fusion: Option<&Fusion>, output: &[u64], (dtype, opset): (DType, i64)) -> Option<StandIn> {
    let written = product(output);
    match (node.operator, fusion) {
        ("MatMul", Some(Fusion::Attention(attention))) => {
            Some(attention.problem(dtype, "no mask is applied; heads may be strided"))
        }
        ("MatMul", _) => matmul(node, output, fusion == Some(&Fusion::Bias)).map(|gemm| gemm.problem(dtype)),
        ("Gemm", _) => {
            let [m, n, k] = infer::gemm(node)?;
            let transposed = node.int("transB").unwrap_or(0) != 0;
            Some(Gemm { b: 1, m, n, k, transposed, bias: node.has(2), gelu: false }.problem(dtype))
        }
        ("Conv", _) => {
            let mut conv = windows::windows(node)?;
            if let Some(Fusion::Conv { bias, relu }) = fusion {
                conv.bias |= bias;
                conv.relu = *relu;
            }
            Some(conv.problem(dtype))
        }
        ("BatchNormalization", _) => problems::scaled_channels(node.shape(0)?, dtype),
        ("ConvTranspose", _) => upsampling(node, output, dtype),
        ("Resize" | "Upsample", _) => resizing(node, output, dtype),
        ("MaxPool", _) => Some(problems::pool(&windows::windows(node)?, "max", dtype)),
        ("AveragePool", _) => Some(problems::pool(&windows::windows(node)?, "average", dtype)),
        ("GlobalAveragePool", _) => spatial_mean(node.shape(0)?, &[2, 3], dtype),
        ("ReduceMean", _) => {
            let given = node.ints("axes").map(<[i64]>::to_vec).or_else(|| node.list("axes", 1))?;
            let shape = node.shape(0)?;
            let axes: Option<Vec<usize>> = given.iter().map(|one| axis(*one, shape.len())).collect();
            spatial_mean(shape, &axes?, dtype)
        }
        ("Softmax", _) => {
            let shape = node.shape(0)?;
            let at = axis(node.int("axis").unwrap_or(if opset < 13 { 1 } else { -1 }), shape.len())?;
            // Before operator set 13, all axes from this one on were one row.
            let columns = if opset < 13 { product(&shape[at..]) } else { *shape.last()? };
            (opset < 13 || at + 1 == shape.len())
                .then(|| of_rows("softmax", written / columns.max(1), columns, dtype, ""))
        }
        ("LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization", _) => {
            let shape = node.shape(0)?;
            let columns = product(&shape[axis(node.int("axis").unwrap_or(-1), shape.len())?..]);
            let workload = if node.operator == "LayerNormalization" { "layernorm" } else { "rmsnorm" };
            Some(of_rows(workload, written / columns.max(1), columns, dtype, ""))
        }
        ("SkipLayerNormalization", _) => {
            let columns = *node.shape(0)?.last()?;
            Some(of_rows("add_layernorm", written / columns.max(1), columns, dtype, ""))
        }
        ("Gelu", _) => {
            let formula = if node.word("approximate") == Some("tanh") { "tanh" } else { "erf" };
            Some(problems::gelu(written, formula, dtype, ""))
        }
        ("FastGelu", _) => Some(problems::gelu(written, "tanh", dtype, "")),
        (_, Some(Fusion::Gelu(formula))) => {
            Some(problems::gelu(written, formula, dtype, "the nodes around it are part of GELU"))
        }
        (_, Some(Fusion::Rows(workload))) => {
            let columns = *output.last()?;
            Some(of_rows(workload, written / columns.max(1), columns, dtype, "the nodes before it are part of it"))
        }
        ("Gather", _) => {
            let [rows, columns] = *node.shape(0)? else { return None };
            let at = node.int("axis").unwrap_or(0);
            (at == 0).then(|| problems::embedding(written / columns.max(1), rows, columns, dtype))
        }
        ("Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Identity" | "Dropout", _) => {
            Some(StandIn::free("the elements stay where they are"))
        }
        ("Cast", _) if node.input(0)?.dtype() == Some(dtype) => Some(StandIn::free("both types are the same")),
        ("Concat" | "Split" | "Slice" | "Pad" | "Expand" | "Tile", _) => {
            Some(movement(written.max(1), dtype, "neighbouring elements stay neighbours, so it is a copy"))
        }
        ("Transpose", _) => transpose(node, dtype),
        ("Add" | "Sub" | "Mul" | "Div", _) => {
            problems::broadcast(&node.operator.to_lowercase(), node.shape(0)?, node.shape(1)?, dtype)
        }
        ("Relu" | "Sigmoid" | "Tanh" | "HardSwish" | "Swish" | "Clip" | "LeakyRelu", _) => {
            let (op, note) = match node.operator {
                "Clip" => ("relu", "the bounds may be others"),
                "LeakyRelu" => ("relu", "negative elements are scaled, not zero"),
                "Swish" => ("silu", ""),
                "Relu" => ("relu", ""),
                "Sigmoid" => ("sigmoid", ""),
                "Tanh" => ("tanh", ""),
                _ => ("hardswish", ""),
            };
            Some(problems::elementwise(op, [1, written], problems::Second::Same, dtype, note))
        }
        _ => None,
    }
}

/// Returns the GEMM of a matrix product. Rows of a batch with one right matrix are rows of one GEMM.
fn matmul(node: &Node, output: &[u64], bias: bool) -> Option<Gemm> {
    let (a, b) = (node.shape(0)?, node.shape(1)?);
    let k = *a.last()?;
    let (b_batch, n) = match b {
        [batch @ .., _, n] => (product(batch), *n),
        _ => (1, 1),
    };
    let elements = product(output);
    let (batch, rows) = if b_batch == 1 { (1, elements / n.max(1)) } else { (b_batch, elements / n.max(1) / b_batch) };
    Some(Gemm { b: batch, m: rows, n, k, transposed: false, bias, gelu: false })
}

/// Returns the GEMM of a transposed convolution whose windows do not overlap.
fn upsampling(node: &Node, output: &[u64], dtype: DType) -> Option<StandIn> {
    let ([images, channels, input @ ..], [_, _, kernel @ ..]) = (node.shape(0)?, node.shape(1)?) else { return None };
    let strides = windows::extents(node.ints("strides")?)?;
    let apart = strides == kernel && node.int("group").unwrap_or(1) == 1;
    let whole = output.get(2..)?.iter().zip(input).zip(kernel).all(|((o, i), k)| *o == i.saturating_mul(*k));
    (apart && whole).then_some(())?;
    let positions = images.saturating_mul(product(input));
    Some(problems::upsampling_conv(positions, *channels, output.get(1)?.saturating_mul(product(kernel)), dtype))
}

/// Returns the problem of images resized in their last two dimensions.
fn resizing(node: &Node, output: &[u64], dtype: DType) -> Option<StandIn> {
    let ([n, c, h, w], [images, channels, oh, ow]) = (node.shape(0)?, output) else { return None };
    let (input, size) = ([*n, *c, *h, *w], [*oh, *ow]);
    ((n, c) == (images, channels) && node.int("antialias").unwrap_or(0) == 0).then_some(())?;
    let kind = match node.word("mode").unwrap_or("nearest") {
        "nearest" => "nearest",
        "linear" | "bilinear" => "bilinear",
        _ => return None,
    };
    let note = match node.word("coordinate_transformation_mode") {
        Some("half_pixel" | "pytorch_half_pixel") | None => "",
        Some(_) => "the problem places pixels by their centres",
    };
    Some(problems::resize(input, size, kind, dtype, note))
}

/// Returns the problem of a mean over both dimensions of images.
fn spatial_mean(shape: &[u64], axes: &[usize], dtype: DType) -> Option<StandIn> {
    match (shape, axes) {
        ([n, c, h, w], [2, 3] | [3, 2]) => Some(problems::global_pool(*n, *c, [*h, *w], dtype)),
        _ => None,
    }
}

/// Returns the problem of a permutation of axes.
fn transpose(node: &Node, dtype: DType) -> Option<StandIn> {
    let shape = node.shape(0)?;
    let order = infer::permutation(node, shape.len())?;
    // Axes of one element can stand anywhere.
    let order: Vec<usize> = order.into_iter().filter(|axis| shape[*axis] != 1).collect();
    let sorted = order.is_sorted();
    let elements = product(shape);
    if sorted {
        return Some(StandIn::free("only axes of one element change places"));
    }
    let last = (0..shape.len()).rev().find(|axis| shape[*axis] != 1)?;
    if order.last() == Some(&last) {
        return Some(movement(elements, dtype, "rows of the last axis stay whole, so it is a copy"));
    }
    // Adjacent matrices: leading axes stay, and the others are two groups that change places.
    let leading = order
        .iter()
        .zip(order.iter().copied().collect::<std::collections::BTreeSet<_>>())
        .take_while(|(a, b)| **a == *b)
        .count();
    let rest = &order[leading..];
    let turn = rest.windows(2).position(|pair| pair[0] > pair[1])? + 1;
    let groups = [&rest[..turn], &rest[turn..]];
    let swapped = groups[1].iter().chain(groups[0]).is_sorted();
    let extent = |axes: &[usize]| axes.iter().fold(1u64, |product, axis| product.saturating_mul(shape[*axis]));
    swapped.then(|| problems::transpose(extent(&order[..leading]), extent(groups[1]), extent(groups[0]), dtype))
}

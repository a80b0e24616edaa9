//! Extents of a node's outputs from those of its inputs, by the operator's definition in ONNX.

use super::node::{Node, axis};
use super::proto::data_type;
use super::value::Value;
use super::{fold, windows};
use crate::problems::product;

/// Returns the outputs of a node; values without extents where they cannot be known.
pub fn outputs(node: &Node) -> Vec<Value> {
    let count = node.proto.output.len();
    let element = element(node);
    let constant = !node.proto.input.is_empty() && node.inputs.iter().flatten().all(|input| input.constant);
    let mut values = several(node, element).unwrap_or_else(|| {
        shape(node).map(|shape| Value::of(element, shape).with_contents(fold::contents(node))).into_iter().collect()
    });
    values.resize_with(count.min(values.len().max(count)), || Value { element, ..Value::default() });
    for value in &mut values {
        value.constant |= constant;
    }
    values
}

/// Element type of the first output.
fn element(node: &Node) -> i32 {
    let of = |at| node.input(at).map_or(0, |input: &Value| input.element);
    match node.operator {
        "Shape" | "Size" | "ArgMax" | "ArgMin" | "NonZero" => data_type::INT64,
        "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" | "Xor" | "Not" | "IsNaN" => {
            data_type::BOOL
        }
        "Cast" => node.int("to").and_then(|to| i32::try_from(to).ok()).unwrap_or(0),
        "Where" => of(1),
        "Constant" | "ConstantOfShape" => node.tensor("value").map_or(data_type::FLOAT, |value| value.element),
        "QuantizeLinear" => of(2),
        "DequantizeLinear" => of(1),
        _ => of(0),
    }
}

/// Returns the outputs of operators with several, or with a tensor as an attribute.
fn several(node: &Node, element: i32) -> Option<Vec<Value>> {
    match node.operator {
        "Constant" => {
            let value = node.tensor("value").or_else(|| {
                let list = node.ints("value_ints").map(|list| list.iter().map(|i| *i as f64).collect::<Vec<_>>());
                let one = node.int("value_int").map(|i| Value::integers(vec![i as f64], Vec::new()));
                list.map(|list| Value::integers(list.clone(), vec![list.len() as u64])).or(one)
            });
            Some(vec![Value { constant: true, ..value.unwrap_or_default() }])
        }
        "Split" => {
            let shape = node.shape(0)?;
            let at = axis(node.int("axis").unwrap_or(0), shape.len())?;
            let outputs = node.proto.output.len() as u64;
            let sizes = match node.list("split", 1) {
                Some(sizes) => sizes.into_iter().map(|size| u64::try_from(size).ok()).collect::<Option<Vec<u64>>>()?,
                None => {
                    let each = shape[at].div_ceil(outputs.max(1));
                    (0..outputs).map(|i| shape[at].saturating_sub(i * each).min(each)).collect()
                }
            };
            let one = |size: u64| Value::of(element, replaced(shape, at, size));
            Some(sizes.into_iter().map(one).collect())
        }
        "LayerNormalization" | "SimplifiedLayerNormalization" | "Dropout" | "MaxPool" | "BatchNormalization" => {
            shape(node).map(|shape| vec![Value::of(element, shape)])
        }
        _ => None,
    }
}

fn replaced(shape: &[u64], at: usize, extent: u64) -> Vec<u64> {
    let mut shape = shape.to_vec();
    shape[at] = extent;
    shape
}

/// Returns the extents of the first output.
fn shape(node: &Node) -> Option<Vec<u64>> {
    match node.operator {
        "MatMul" => matmul(node.shape(0)?, node.shape(1)?),
        "Gemm" => gemm(node).map(|[m, n, _]| vec![m, n]),
        "Conv" | "MaxPool" | "AveragePool" => windows::output(node),
        "ConvTranspose" => windows::transposed_output(node),
        "GlobalAveragePool" | "GlobalMaxPool" => {
            let shape = node.shape(0)?;
            Some(shape.iter().enumerate().map(|(i, extent)| if i < 2 { *extent } else { 1 }).collect())
        }
        "Flatten" => {
            let shape = node.shape(0)?;
            let given = node.int("axis").unwrap_or(1);
            let at = if given == shape.len() as i64 { shape.len() } else { axis(given, shape.len())? };
            Some(vec![product(&shape[..at]), product(&shape[at..])])
        }
        "Reshape" => reshape(node),
        "Squeeze" => {
            let shape = node.shape(0)?;
            let axes = positions(node.list("axes", 1), shape.len());
            let kept = |i: usize| match &axes {
                Some(axes) => !axes.contains(&i),
                None => shape[i] != 1,
            };
            Some((0..shape.len()).filter(|i| kept(*i)).map(|i| shape[i]).collect())
        }
        "Unsqueeze" => {
            let shape = node.shape(0)?;
            let axes = node.list("axes", 1)?;
            let rank = shape.len() + axes.len();
            let axes = positions(Some(axes), rank)?;
            let mut left = shape.iter();
            (0..rank).map(|i| if axes.contains(&i) { Some(1) } else { left.next().copied() }).collect()
        }
        "Transpose" => {
            let shape = node.shape(0)?;
            permutation(node, shape.len())?.into_iter().map(|from| shape.get(from).copied()).collect()
        }
        "Concat" => {
            let first = node.shape(0)?;
            let at = axis(node.int("axis")?, first.len())?;
            let extents: Option<Vec<u64>> =
                (0..node.proto.input.len()).map(|i| node.shape(i)?.get(at).copied()).collect();
            Some(replaced(first, at, extents?.iter().fold(0u64, |sum, extent| sum.saturating_add(*extent))))
        }
        "Slice" => slice(node),
        "Gather" => {
            let (data, indices) = (node.shape(0)?, node.shape(1)?);
            let at = axis(node.int("axis").unwrap_or(0), data.len())?;
            Some([&data[..at], indices, &data[at + 1..]].concat())
        }
        "GatherElements" => node.shape(1).map(<[u64]>::to_vec),
        "Expand" => broadcast(node.shape(0)?, &extents(node.contents(1)?)?),
        "Tile" => {
            let (shape, times) = (node.shape(0)?, extents(node.contents(1)?)?);
            (shape.len() == times.len())
                .then(|| shape.iter().zip(times).map(|(extent, times)| extent.saturating_mul(times)).collect())
        }
        "ConstantOfShape" => extents(node.contents(0)?),
        "Range" => {
            let [start, limit, delta] = [node.contents(0)?, node.contents(1)?, node.contents(2)?];
            let steps = ((limit.first()? - start.first()?) / delta.first()?).ceil();
            (0.0..1e12).contains(&steps).then(|| vec![steps as u64])
        }
        "Shape" => Some(vec![fold::part_of_shape(node)?.len() as u64]),
        "Size" => Some(Vec::new()),
        "Pad" => {
            let (shape, pads) = (node.shape(0)?, node.list("pads", 1)?);
            let rank = shape.len();
            (pads.len() == 2 * rank).then_some(())?;
            let padded = |i: usize| shape[i].checked_add_signed(pads[i])?.checked_add_signed(pads[i + rank]);
            (0..rank).map(padded).collect()
        }
        "Resize" | "Upsample" => {
            let shape = node.shape(0)?;
            if let Some(sizes) = node.contents(3).filter(|sizes| !sizes.is_empty()) {
                return extents(sizes).filter(|sizes| sizes.len() == shape.len());
            }
            let scales = node.contents(if node.operator == "Resize" { 2 } else { 1 })?;
            (scales.len() == shape.len())
                .then(|| shape.iter().zip(scales).map(|(extent, scale)| (*extent as f64 * scale) as u64).collect())
        }
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL2" | "ReduceSumSquare"
        | "ArgMax" | "ArgMin" => {
            let shape = node.shape(0)?;
            let given = match node.int("axis") {
                Some(one) => Some(vec![one]),
                None => node.list("axes", 1).filter(|axes| !axes.is_empty()),
            };
            let axes = positions(given, shape.len()).unwrap_or_else(|| (0..shape.len()).collect());
            let keep = node.int("keepdims").unwrap_or(1) == 1;
            let extent = |i: usize| match (axes.contains(&i), keep) {
                (false, _) => Some(shape[i]),
                (true, true) => Some(1),
                (true, false) => None,
            };
            Some((0..shape.len()).filter_map(extent).collect())
        }
        "DepthToSpace" | "SpaceToDepth" => {
            let [n, c, h, w] = *node.shape(0)? else { return None };
            let block = u64::try_from(node.int("blocksize")?).ok().filter(|block| (1..=4096).contains(block))?;
            Some(match node.operator {
                "DepthToSpace" => vec![n, c / (block * block), h * block, w * block],
                _ => vec![n, c.saturating_mul(block * block), h / block, w / block],
            })
        }
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Mod" | "PRelu" | "Equal" | "Less" | "Greater" | "LessOrEqual"
        | "GreaterOrEqual" | "And" | "Or" | "Xor" | "Min" | "Max" | "Sum" | "Mean" | "Where" => {
            let shapes: Option<Vec<&[u64]>> = (0..node.proto.input.len()).map(|i| node.shape(i)).collect();
            shapes?.into_iter().try_fold(Vec::new(), |all, shape| broadcast(&all, shape))
        }
        operator if is_unary(operator) => node.shape(0).map(<[u64]>::to_vec),
        _ => None,
    }
}

/// Whether an operator's first output has the extents of its first input.
pub fn is_unary(operator: &str) -> bool {
    UNARY.binary_search(&operator).is_ok()
}

/// Operators with one output of the first input's extents, in alphabetical order.
const UNARY: [&str; 50] = [
    "Abs",
    "Acos",
    "Asin",
    "Atan",
    "BatchNormalization",
    "Cast",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "CumSum",
    "DequantizeLinear",
    "Dropout",
    "Elu",
    "Erf",
    "Exp",
    "FastGelu",
    "Floor",
    "Gelu",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "InstanceNormalization",
    "IsNaN",
    "LRN",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "Mish",
    "Neg",
    "Not",
    "QuantizeLinear",
    "QuickGelu",
    "RMSNormalization",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "SimplifiedLayerNormalization",
    "Sin",
    "Softmax",
    "Softplus",
    "Sqrt",
    "Swish",
    "Tanh",
    "Trilu",
];

/// Returns the extents of a matrix product with its batches.
fn matmul(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    match (a, b) {
        ([], _) | (_, []) => None,
        ([_], [_]) => Some(Vec::new()),
        ([_], [batch @ .., _, n]) => Some([batch, &[*n]].concat()),
        ([batch @ .., m, _], [_]) => Some([batch, &[*m]].concat()),
        ([a_batch @ .., m, _], [b_batch @ .., _, n]) => {
            broadcast(a_batch, b_batch).map(|batch| [&batch[..], &[*m, *n]].concat())
        }
    }
}

/// Returns `[m, n, k]` of a `Gemm`.
pub fn gemm(node: &Node) -> Option<[u64; 3]> {
    let turned = |name: &str| node.int(name).unwrap_or(0) != 0;
    let [rows, columns] = *node.shape(0)? else { return None };
    let [b_rows, b_columns] = *node.shape(1)? else { return None };
    let (m, k) = if turned("transA") { (columns, rows) } else { (rows, columns) };
    Some([m, if turned("transB") { b_rows } else { b_columns }, k])
}

fn reshape(node: &Node) -> Option<Vec<u64>> {
    let from = node.shape(0)?;
    let keep_zero = node.int("allowzero").unwrap_or(0) != 0;
    let mut open = None;
    let mut to = Vec::new();
    for (i, wanted) in node.contents(1)?.iter().enumerate() {
        match *wanted as i64 {
            -1 => {
                open = Some(i);
                to.push(1);
            }
            0 if !keep_zero => to.push(*from.get(i)?),
            extent => to.push(u64::try_from(extent).ok()?),
        }
    }
    if let Some(open) = open {
        to[open] = product(from).checked_div(product(&to))?;
    }
    Some(to)
}

fn slice(node: &Node) -> Option<Vec<u64>> {
    let mut shape = node.shape(0)?.to_vec();
    let (starts, ends) = (node.list("starts", 1)?, node.list("ends", 2)?);
    let axes = positions(node.list("axes", 3), shape.len()).unwrap_or_else(|| (0..starts.len()).collect());
    let steps = node.contents(4);
    for (i, at) in axes.into_iter().enumerate() {
        let step = steps.map_or(Some(1), |steps| steps.get(i).map(|step| *step as i64))?;
        let range = fold::range(*starts.get(i)?, *ends.get(i)?, step, *shape.get(at)?)?;
        shape[at] = range.len() as u64;
    }
    Some(shape)
}

/// Returns the order of the axes after a `Transpose`.
pub fn permutation(node: &Node, rank: usize) -> Option<Vec<usize>> {
    match node.ints("perm") {
        Some(order) if order.len() == rank => positions(Some(order.to_vec()), rank),
        Some(_) => None,
        None => Some((0..rank).rev().collect()),
    }
}

/// Returns axes counted from the start.
fn positions(axes: Option<Vec<i64>>, rank: usize) -> Option<Vec<usize>> {
    axes?.into_iter().map(|one| axis(one, rank)).collect()
}

/// Returns contents as extents.
fn extents(contents: &[f64]) -> Option<Vec<u64>> {
    contents.iter().map(|extent| (0.0..1e13).contains(extent).then_some(*extent as u64)).collect()
}

/// Returns the extents of two tensors under NumPy's broadcasting.
pub fn broadcast(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let rank = a.len().max(b.len());
    let of = |shape: &[u64], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let one = |i: usize| match (of(a, i), of(b, i)) {
        (1, other) | (other, 1) => Some(other),
        (x, y) => (x == y).then_some(x),
    };
    (0..rank).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_found_by_name() {
        assert!(UNARY.is_sorted());
        assert!(is_unary("Relu") && is_unary("Abs") && is_unary("Trilu") && !is_unary("Add"));
    }

    #[test]
    fn extents_broadcast_as_in_numpy() {
        for (a, b, want) in [
            (&[2, 3][..], &[3][..], Some(vec![2, 3])),
            (&[2, 1, 4], &[5, 1], Some(vec![2, 5, 4])),
            (&[], &[7], Some(vec![7])),
            (&[2], &[3], None),
        ] {
            assert_eq!(broadcast(a, b), want, "{a:?} {b:?}");
            assert_eq!(broadcast(b, a), want, "{b:?} {a:?}");
        }
        assert_eq!(matmul(&[8, 1, 5, 7], &[4, 7, 3]), Some(vec![8, 4, 5, 3]));
        assert_eq!(matmul(&[7], &[4, 7, 3]), Some(vec![4, 3]));
    }
}

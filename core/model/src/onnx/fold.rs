//! Contents of small tensors that are known before the model runs: arithmetic on shapes.

use super::node::{Node, axis};
use super::value::MOST_CONTENTS;

/// Returns the contents of a node's output, if they follow from constants and extents.
pub fn contents(node: &Node) -> Option<Vec<f64>> {
    let all = |at| node.contents(at).map(<[f64]>::to_vec);
    match node.operator {
        "Shape" => Some(part_of_shape(node)?.iter().map(|extent| *extent as f64).collect()),
        "Size" => Some(vec![node.input(0)?.elements()? as f64]),
        "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" => all(0),
        // Whole numbers stay whole: shapes pass through floats.
        "Cast" => Some(all(0)?.into_iter().map(f64::trunc).collect()),
        "Floor" => Some(all(0)?.into_iter().map(f64::floor).collect()),
        "Ceil" => Some(all(0)?.into_iter().map(f64::ceil).collect()),
        "Concat" => {
            let parts: Option<Vec<&[f64]>> = (0..node.proto.input.len()).map(|i| node.contents(i)).collect();
            let parts = parts?;
            let flat = (0..node.proto.input.len()).all(|i| node.shape(i).is_some_and(|shape| shape.len() <= 1));
            flat.then(|| parts.concat())
        }
        "Gather" => {
            let (data, indices) = (node.contents(0)?, node.contents(1)?);
            (node.shape(0)?.len() == 1).then_some(())?;
            indices.iter().map(|i| Some(data[axis(*i as i64, data.len())?])).collect()
        }
        "Slice" => {
            let data = node.contents(0)?;
            let ([start], [end]) = (&node.list("starts", 1)?[..], &node.list("ends", 2)?[..]) else { return None };
            (node.shape(0)?.len() == 1).then_some(())?;
            let step = node.contents(4).map_or(Some(1), |steps| steps.first().map(|step| *step as i64))?;
            Some(range(*start, *end, step, data.len() as u64)?.into_iter().map(|i| data[i as usize]).collect())
        }
        "ConstantOfShape" => {
            let elements = node.contents(0)?.iter().product::<f64>();
            let value = node.tensor("value").map_or(Some(0.0), |value| value.contents?.first().copied())?;
            (0.0..=MOST_CONTENTS as f64).contains(&elements).then(|| vec![value; elements as usize])
        }
        "Range" => {
            let ([start], [limit], [delta]) = (node.contents(0)?, node.contents(1)?, node.contents(2)?) else {
                return None;
            };
            let steps = ((limit - start) / delta).ceil();
            (0.0..=MOST_CONTENTS as f64)
                .contains(&steps)
                .then(|| (0..steps as usize).map(|i| start + i as f64 * delta).collect())
        }
        "Where" => {
            let condition = node.contents(0)?;
            (0..condition.len())
                .map(|i| if condition[i] != 0.0 { spread(node, 1, i) } else { spread(node, 2, i) })
                .collect()
        }
        "Add" => pairs(node, |a, b| a + b),
        "Sub" => pairs(node, |a, b| a - b),
        "Mul" => pairs(node, |a, b| a * b),
        // ONNX divides whole numbers towards zero.
        "Div" => pairs(node, |a, b| if b == 0.0 { 0.0 } else { (a / b).trunc() }),
        "Equal" => pairs(node, |a, b| f64::from(u8::from(a == b))),
        "Less" => pairs(node, |a, b| f64::from(u8::from(a < b))),
        "Greater" => pairs(node, |a, b| f64::from(u8::from(a > b))),
        "Min" => pairs(node, f64::min),
        "Max" => pairs(node, f64::max),
        _ => None,
    }
}

/// Returns the extents that `Shape` selects.
pub fn part_of_shape<'g>(node: &Node<'g>) -> Option<&'g [u64]> {
    let shape = node.shape(0)?;
    let place = |name: &str, default: usize| match node.int(name) {
        Some(at) if at < 0 => shape.len().saturating_add_signed(at as isize),
        Some(at) => (at as usize).min(shape.len()),
        None => default,
    };
    shape.get(place("start", 0)..place("end", shape.len()))
}

/// Applies a function to the elements of two inputs, of which one may be a single element.
fn pairs(node: &Node, function: impl Fn(f64, f64) -> f64) -> Option<Vec<f64>> {
    let count = node.contents(0)?.len().max(node.contents(1)?.len());
    (0..count).map(|i| Some(function(spread(node, 0, i)?, spread(node, 1, i)?))).collect()
}

fn spread(node: &Node, at: usize, i: usize) -> Option<f64> {
    match node.contents(at)? {
        [one] => Some(*one),
        all => all.get(i).copied(),
    }
}

/// Returns the indices of a slice of an extent, by ONNX's rules for negative and too large bounds.
pub fn range(start: i64, end: i64, step: i64, extent: u64) -> Option<Indices> {
    let extent = i64::try_from(extent).ok()?;
    let bound = |at: i64, low: i64, high: i64| if at < 0 { at.saturating_add(extent) } else { at }.clamp(low, high);
    let (start, length) = match step {
        0 | i64::MIN => return None,
        1.. => {
            let (start, end) = (bound(start, 0, extent), bound(end, 0, extent));
            (start, (end - start).max(0).div_ceil_to(step))
        }
        _ => {
            let (start, end) = (bound(start, -1, extent - 1), bound(end, -1, extent - 1));
            (start, (start - end).max(0).div_ceil_to(-step))
        }
    };
    Some(Indices { start, step, length })
}

/// Indices of a slice.
pub struct Indices {
    start: i64,
    step: i64,
    length: i64,
}

impl Indices {
    /// Number of indices.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    fn into_iter(self) -> impl Iterator<Item = i64> {
        (0..self.length).map(move |i| self.start + i * self.step)
    }
}

trait DivCeil {
    fn div_ceil_to(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    /// Quotient of a number of at least zero, rounded up.
    fn div_ceil_to(self, by: i64) -> i64 {
        self / by + i64::from(self % by != 0)
    }
}

//! Convolutions and pooling: attributes as the suite's convolution.

use super::node::Node;
use crate::problems::Conv;

/// Returns the convolution or the windows of a `Conv`, `MaxPool` or `AveragePool`; `None` where extents are unknown or impossible.
pub fn windows(node: &Node) -> Option<Conv> {
    let [images, channels, ref input @ ..] = *node.shape(0)? else { return None };
    let rank = input.len();
    let convolves = node.operator == "Conv";
    let (filters, kernel) = match node.shape(1) {
        Some([filters, _, kernel @ ..]) if convolves => (*filters, kernel.to_vec()),
        _ if convolves => return None,
        _ => (channels, extents(node.ints("kernel_shape")?)?),
    };
    let list = |name: &str| match node.ints(name) {
        Some(list) if !list.is_empty() => extents(list),
        _ => Some(vec![1; rank]),
    };
    let (strides, dilations) = (list("strides")?, list("dilations")?);
    (rank > 0 && [kernel.len(), strides.len(), dilations.len()] == [rank; 3]).then_some(())?;
    (strides.iter().chain(&dilations).chain(&kernel).all(|extent| (1..1 << 24).contains(extent))).then_some(())?;
    let span = |i: usize| dilations[i] * (kernel[i] - 1) + 1;
    let pads = match node.word("auto_pad").unwrap_or("NOTSET") {
        "NOTSET" => match node.ints("pads") {
            Some(pads) if pads.len() == 2 * rank => {
                let pads = extents(pads)?;
                (0..rank).map(|i| (pads[i], pads[i + rank])).collect()
            }
            Some(pads) if !pads.is_empty() => return None,
            _ => vec![(0, 0); rank],
        },
        "VALID" => vec![(0, 0); rank],
        side => {
            let all = |i: usize| {
                (input[i].div_ceil(strides[i]).saturating_sub(1) * strides[i] + span(i)).saturating_sub(input[i])
            };
            let split =
                |all: u64| if side == "SAME_LOWER" { (all - all / 2, all / 2) } else { (all / 2, all - all / 2) };
            (0..rank).map(|i| split(all(i))).collect()
        }
    };
    let groups = match (convolves, node.int("group")) {
        (true, Some(groups)) => u64::try_from(groups).ok().filter(|groups| *groups > 0)?,
        _ => 1,
    };
    Some(Conv {
        images,
        channels,
        filters,
        input: input.to_vec(),
        kernel,
        strides,
        dilations,
        pads,
        groups,
        bias: convolves && node.has(2),
        relu: false,
        channels_last: false,
    })
}

/// Returns the output's extents.
pub fn output(node: &Node) -> Option<Vec<u64>> {
    let windows = windows(node)?;
    let mut extents = vec![windows.images, windows.filters];
    match node.int("ceil_mode").unwrap_or(0) {
        0 => extents.extend(windows.output()?),
        // The last window may begin within the image and end behind it.
        _ => {
            let more = |i: usize| (windows.pads[i].0, windows.pads[i].1.saturating_add(windows.strides[i] - 1));
            let pads = (0..windows.input.len()).map(more).collect();
            extents.extend(Conv { pads, ..windows }.output()?);
        }
    }
    Some(extents)
}

/// Returns the output's extents of a `ConvTranspose`.
pub fn transposed_output(node: &Node) -> Option<Vec<u64>> {
    let [images, _, ref input @ ..] = *node.shape(0)? else { return None };
    let [_, filters, ref kernel @ ..] = *node.shape(1)? else { return None };
    let rank = input.len();
    let list = |name: &str, default: u64, count: usize| match node.ints(name) {
        Some(list) if !list.is_empty() => extents(list).filter(|list| list.len() == count),
        _ => Some(vec![default; count]),
    };
    let (strides, dilations) = (list("strides", 1, rank)?, list("dilations", 1, rank)?);
    let (pads, more) = (list("pads", 0, 2 * rank)?, list("output_padding", 0, rank)?);
    let groups = u64::try_from(node.int("group").unwrap_or(1)).ok()?;
    let one = |i: usize| {
        let span = dilations[i].checked_mul(kernel.get(i)?.checked_sub(1)?)?.checked_add(1)?;
        let all = strides[i].checked_mul(input[i].checked_sub(1)?)?.checked_add(span)?.checked_add(more[i])?;
        all.checked_sub(pads[i])?.checked_sub(pads[i + rank])
    };
    let space: Option<Vec<u64>> = (0..rank).map(one).collect();
    Some([vec![images, filters.checked_mul(groups)?], space?].concat())
}

/// Returns attributes as extents.
pub fn extents(list: &[i64]) -> Option<Vec<u64>> {
    list.iter().map(|extent| u64::try_from(*extent).ok()).collect()
}

//! Index arithmetic and stages of images in either memory order, `nchw` or `nhwc`, with the axes `n` and `c`.

use parallax_ir::{Elem, Problem, Stage, spread, width};
use parallax_schema::device::Caps;

/// Distance of neighbouring pixels of a channel, in elements.
pub(crate) fn apart(p: &Problem) -> usize {
    if p.shape.has("nhwc") { p["c"] as usize } else { 1 }
}

/// Extents of a tensor of `rows` rows and `columns` columns, slowest first.
pub(crate) fn extents(p: &Problem, rows: u64, columns: u64) -> [u64; 4] {
    match p.shape.has("nhwc") {
        true => [p["n"], rows, columns, p["c"]],
        false => [p["n"], p["c"], rows, columns],
    }
}

/// Size of a tensor with such extents.
pub(crate) fn bytes(p: &Problem, extents: &[u64; 4]) -> u64 {
    extents.iter().product::<u64>() * Elem::Real.storage(p.dtype).bytes()
}

/// Image, channel, row and column of an element of a tensor with such extents.
pub(crate) fn split(p: &Problem, [_, a, b, c]: [u64; 4], at: u64) -> [u64; 4] {
    let (i, j, k, l) = (at / (a * b * c), at / (b * c) % a, at / c % b, at % c);
    if p.shape.has("nhwc") { [i, l, j, k] } else { [i, j, k, l] }
}

/// Index of an element, the inverse of [`split`].
pub(crate) fn position(p: &Problem, [_, a, b, c]: [u64; 4], [n, channel, row, column]: [u64; 4]) -> u64 {
    let (j, k, l) = if p.shape.has("nhwc") { (row, column, channel) } else { (channel, row, column) };
    ((n * a + j) * b + k) * c + l
}

/// Neighbouring elements that a thread writes at once, of a tensor with such extents.
pub(crate) fn along(p: &Problem, extents: [u64; 4], caps: &Caps) -> u64 {
    width(extents[3], p.dtype, caps)
}

/// Checks that a thread writes more than one element at once.
///
/// # Errors
/// Extents of no whole vectors.
pub(crate) fn several(p: &Problem, extents: [u64; 4], caps: &Caps) -> Result<(), String> {
    match along(p, extents, caps) {
        1 => Err(format!("{} neighbouring elements are not made of several vectors", extents[3])),
        _ => Ok(()),
    }
}

/// Threads of a workgroup.
const THREADS: u64 = 256;

/// Stage with one piece of `width` elements of a tensor per thread. `sides` are the rows, then the columns, of the input and of the
/// output. The kernel sources are for pieces of neighbouring channels, and for several elements of a row.
pub(crate) fn stage_of_pieces(
    p: &Problem,
    (tensor, width): ([u64; 4], u64),
    sides: [(u64, u64); 2],
    texts: [&'static str; 2],
    entry: &'static str,
) -> Stage {
    let of_row = width > 1 && !p.shape.has("nhwc");
    let count = tensor.iter().product::<u64>() / width;
    let step = if p.shape.has("nhwc") { p["c"] / width } else { 1 };
    let [(h, oh), (w, ow)] = sides;
    let consts = [
        ("COUNT", count),
        ("WIDTH", width),
        ("STEP", step),
        ("H", h),
        ("W", w),
        ("OH", oh),
        ("OW", ow),
        ("THREADS", THREADS),
    ];
    Stage::kernel(entry, texts[usize::from(of_row)], entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([THREADS as u32, 1, 1])
        .grid(spread(count.div_ceil(THREADS)))
}

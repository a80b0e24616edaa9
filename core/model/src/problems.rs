//! Problems of the suite that stand for operations, with the argument for each equivalence.

use parallax_ir::{Elem, Problem};
use parallax_schema::case::{Cost, DType, Direction};
use parallax_schema::record::Coverage;

/// Problem that stands for an operation, or the reason why there is none, with the least cost of one execution.
#[derive(Debug, Clone, PartialEq)]
pub struct StandIn {
    /// Problem or reason.
    pub coverage: Coverage,
    /// Least cost of one execution.
    pub cost: Cost,
}

impl StandIn {
    /// Returns an operation that costs nothing.
    pub fn free(reason: &str) -> StandIn {
        StandIn { coverage: Coverage::Free { reason: reason.to_owned() }, cost: Cost::default() }
    }

    /// Returns an operation without a problem.
    pub fn missing(reason: impl Into<String>, cost: Cost) -> StandIn {
        StandIn { coverage: Coverage::Missing { reason: reason.into() }, cost }
    }

    /// Returns a problem, or an operation without one where the suite refuses its shape.
    fn of(workload: &str, shape: &str, dtype: DType, note: &str) -> StandIn {
        let found = parallax_workloads::find(workload).expect("a workload of the suite");
        match Problem::new(found, Direction::Fwd, shape, dtype) {
            Ok(problem) => StandIn {
                coverage: Coverage::Problem { problem: problem.to_string(), note: note.to_owned() },
                cost: problem.cost(),
            },
            Err(error) => StandIn::missing(format!("{workload} refuses it: {error}"), Cost::default()),
        }
    }
}

/// Normalisation of channels by constants: a scale of each channel. `shape` begins with images and channels.
pub fn scaled_channels(shape: &[u64], dtype: DType) -> Option<StandIn> {
    let [_, channels, space @ ..] = shape else { return None };
    let scale = [&[*channels][..], &vec![1; space.len()]].concat();
    let mut found = broadcast("mul", shape, &scale, dtype)?;
    if let Coverage::Problem { note, .. } = &mut found.coverage {
        let shift = "the problem scales channels and shifts none";
        *note = notes([(!note.is_empty(), &note.clone()), (true, shift)]);
    }
    Some(found)
}

/// Joins the parts of a note that apply.
fn notes<const N: usize>(parts: [(bool, &str); N]) -> String {
    parts.iter().filter(|(applies, _)| *applies).map(|(_, note)| *note).collect::<Vec<_>>().join("; ")
}

/// GEMM `[b, m, k] × [b, k, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gemm {
    /// Batch of independent GEMMs.
    pub b: u64,
    /// Rows.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Depth.
    pub k: u64,
    /// Whether the right matrix is stored as `[n, k]`, like weights of a linear layer.
    pub transposed: bool,
    /// Whether a bias of `n` numbers is added.
    pub bias: bool,
    /// Whether GELU follows in the same kernel.
    pub gelu: bool,
}

impl Gemm {
    /// Linear layer with stored weights `[n, k]`.
    pub fn linear(m: u64, n: u64, k: u64, bias: bool) -> Gemm {
        Gemm { b: 1, m, n, k, transposed: true, bias, gelu: false }
    }

    /// Returns the problem in an element type.
    pub fn problem(self, dtype: DType) -> StandIn {
        let Gemm { b, m, n, k, transposed, bias, gelu } = self;
        if (b, transposed, bias, gelu) == (1, false, false, false) {
            return StandIn::of("matmul", &format!("m{m},n{n},k{k}"), dtype, "");
        }
        let words = format!("{}{}", if transposed { ",nt" } else { "" }, if gelu { ",gelu" } else { "" });
        let note = if bias { "" } else { "the problem adds a bias of one row, which the operation lacks" };
        StandIn::of("linear", &format!("b{b},m{m},n{n},k{k}{words}"), dtype, note)
    }
}

/// Convolution with one to three dimensions of space, the outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv {
    /// Images.
    pub images: u64,
    /// Input channels.
    pub channels: u64,
    /// Output channels.
    pub filters: u64,
    /// Extents of the input.
    pub input: Vec<u64>,
    /// Extents of the kernel.
    pub kernel: Vec<u64>,
    /// Strides.
    pub strides: Vec<u64>,
    /// Dilations.
    pub dilations: Vec<u64>,
    /// Padding before and after each dimension.
    pub pads: Vec<(u64, u64)>,
    /// Groups of channels.
    pub groups: u64,
    /// Whether a bias is added.
    pub bias: bool,
    /// Whether negative results become zero in the same kernel.
    pub relu: bool,
    /// Whether channels are stored last.
    pub channels_last: bool,
}

impl Conv {
    /// Returns output extents; `None` for a kernel that exceeds its image.
    pub fn output(&self) -> Option<Vec<u64>> {
        let one = |i: usize| {
            let span = self.dilations[i].checked_mul(self.kernel[i].checked_sub(1)?)?.checked_add(1)?;
            let padded = self.input[i].checked_add(self.pads[i].0)?.checked_add(self.pads[i].1)?;
            Some(padded.checked_sub(span)? / self.strides[i].max(1) + 1)
        };
        (0..self.input.len()).map(one).collect()
    }

    /// Returns the problem in an element type.
    pub fn problem(&self, dtype: DType) -> StandIn {
        let Some(output) = self.output() else {
            return StandIn::missing("its kernel is larger than the padded image", Cost::default());
        };
        let cost = self.cost(&output, dtype);
        let same = |values: &[u64]| values.iter().all(|value| *value == values[0]).then(|| values[0]);
        let rank = self.input.len();
        // One dimension is an image of height one. Its strides and dilations do not matter there.
        let (strides, dilations) = match (same(&self.strides), same(&self.dilations)) {
            (Some(s), Some(d)) if (1..=3).contains(&rank) => (s, d),
            _ => return StandIn::missing("its strides or dilations differ between dimensions", cost),
        };
        let pads: Vec<u64> = self.pads.iter().flat_map(|(before, after)| [*before, *after]).collect();
        let (padding, asymmetric) = match same(&pads) {
            Some(padding) if rank > 1 => (padding, false),
            _ => (0, pads.iter().any(|pad| *pad > 0)),
        };
        let padded =
            |i: usize| if padding == 0 { self.input[i] + self.pads[i].0 + self.pads[i].1 } else { self.input[i] };
        let extents: Vec<u64> = (0..rank).map(padded).collect();
        let depthwise = self.groups > 1 && self.groups == self.channels && self.filters == self.channels;
        let (h, w, k, kw) = match rank {
            1 => (1, extents[0], 1, self.kernel[0]),
            _ => (extents[rank - 2], extents[rank - 1], self.kernel[rank - 2], self.kernel[rank - 1]),
        };
        let depth = match rank {
            3 => format!(",d{},kd{}", extents[0], self.kernel[0]),
            _ => String::new(),
        };
        let layout = match (rank == 3, self.channels_last) {
            (false, false) => "nchw",
            (false, true) => "nhwc",
            (true, false) => "ncdhw",
            (true, true) => "ndhwc",
        };
        let (n, c) = (self.images, self.channels);
        let shape = format!("n{n},c{c}{depth},h{h},w{w},k{k},kw{kw},s{strides},p{padding},l{dilations},{layout}");
        let border = "the padding differs between sides, so it is part of the image";
        if depthwise {
            let workload = if rank == 3 { "depthwise_conv3d" } else { "depthwise_conv2d" };
            let note = notes([(asymmetric, border), (self.bias || self.relu, "bias and activation are not computed")]);
            return StandIn::of(workload, &shape, dtype, &note);
        }
        let words = format!("{}{}", if self.bias { ",bias" } else { "" }, if self.relu { ",relu" } else { "" });
        let workload = if rank == 3 { "conv3d" } else { "conv2d" };
        let shape = format!("{shape},m{},g{}{words}", self.filters, self.groups.max(1));
        StandIn::of(workload, &shape, dtype, &notes([(asymmetric, border)]))
    }

    fn cost(&self, output: &[u64], dtype: DType) -> Cost {
        let points = product(output);
        let per_output = product(&self.kernel).saturating_mul(self.channels / self.groups.max(1));
        let outputs = self.images.saturating_mul(self.filters).saturating_mul(points);
        let element = element(dtype);
        let inputs = self.images.saturating_mul(self.channels).saturating_mul(product(&self.input));
        let weights = self.filters.saturating_mul(per_output);
        Cost::new(
            outputs.saturating_mul(per_output).saturating_mul(2),
            inputs.saturating_add(weights).saturating_mul(element),
            outputs.saturating_mul(element),
        )
    }
}

/// Transposed convolution whose windows do not overlap, as a GEMM: `[positions, c] × [c, filters · window]`.
pub fn upsampling_conv(positions: u64, channels: u64, columns: u64, dtype: DType) -> StandIn {
    let shape = format!("m{positions},n{columns},k{channels}");
    StandIn::of("matmul", &shape, dtype, "its windows do not overlap: a GEMM whose results are stored by windows")
}

/// Attention of all tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Batch.
    pub b: u64,
    /// Query heads.
    pub h: u64,
    /// Key-value heads.
    pub kv: u64,
    /// Queries.
    pub s: u64,
    /// Keys.
    pub t: u64,
    /// Head dimension.
    pub d: u64,
    /// Keys of a window that ends at a query's own; 0 for all.
    pub w: u64,
    /// Whether later keys are masked.
    pub causal: bool,
}

impl Attention {
    /// Returns the problem in an element type. `note` is the caller's part of the argument.
    pub fn problem(self, dtype: DType, note: &str) -> StandIn {
        let Attention { b, h, kv, s, t, d, w, causal } = self;
        if s == 1 && t > 1 {
            // The window of the only query is the end of the cache.
            let keys = if w > 0 { t.min(w) } else { t };
            let shape = format!("b{b},h{h},kv{kv},t{keys},d{d}");
            return StandIn::of("attention_decode", &shape, dtype, "keys and values are in pages of 16 tokens");
        }
        let window = if w > 0 && w < t { format!(",w{w}") } else { String::new() };
        let mask = if causal { ",causal" } else { "" };
        StandIn::of("attention", &format!("b{b},h{h},kv{kv},s{s},t{t},d{d}{window}{mask}"), dtype, note)
    }
}

/// Operation on the rows of a matrix: `softmax`, `layernorm`, `rmsnorm`, `add_layernorm`.
pub fn of_rows(workload: &str, rows: u64, columns: u64, dtype: DType, note: &str) -> StandIn {
    StandIn::of(workload, &format!("r{rows},c{columns}"), dtype, note)
}

/// GELU of each element, by the formula `tanh` or `erf`.
pub fn gelu(elements: u64, formula: &str, dtype: DType, note: &str) -> StandIn {
    StandIn::of("gelu", &format!("n{elements},{formula}"), dtype, note)
}

/// Extent of the second operand of an element-wise operation, beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// There is none, or it has the same extents.
    Same,
    /// One row for all rows.
    Row,
    /// One element for each row.
    Column,
}

/// Element-wise operation on a matrix of rows and columns, by its name in the suite.
pub fn elementwise(op: &str, [rows, columns]: [u64; 2], second: Second, dtype: DType, note: &str) -> StandIn {
    let (rows, columns, word) = match second {
        // The extents do not matter: rows for the host's threads, with whole vectors where possible.
        Second::Same => {
            let elements = rows.saturating_mul(columns);
            let long = elements.checked_ilog2().unwrap_or(0).saturating_sub(10);
            let rows = 1 << elements.trailing_zeros().saturating_sub(3).min(12).min(long);
            (rows, elements / rows, "")
        }
        Second::Row => (rows, columns, ",row"),
        Second::Column => (rows, columns, ",column"),
    };
    StandIn::of("elementwise", &format!("r{rows},c{columns},{op}{word}"), dtype, note)
}

/// Element-wise operation of two tensors under NumPy's broadcasting; `None` where one repeats in a way that the suite has not.
pub fn broadcast(op: &str, a: &[u64], b: &[u64], dtype: DType) -> Option<StandIn> {
    // Sums and products are the same in either order. A quotient or a difference costs the same.
    let (whole, other) = if product(a) >= product(b) { (a, b) } else { (b, a) };
    let elements = product(whole);
    let last = whole.last().copied().unwrap_or(1);
    let matrix = |columns: u64| [elements / columns.max(1), columns];
    if product(other) == elements {
        return Some(elementwise(op, matrix(last), Second::Same, dtype, ""));
    }
    if product(other) == 1 {
        return Some(elementwise(op, matrix(last), Second::Row, dtype, "the second operand is one number, not a row"));
    }
    let at = |i: usize| (i + other.len()).checked_sub(whole.len()).map_or(1, |at| other[at]);
    let given: Vec<usize> = (0..whole.len()).filter(|i| at(*i) != 1).collect();
    let (first, end) = (*given.first()?, *given.last()? + 1);
    let dense = (first..end).all(|i| at(i) == whole[i]);
    match (dense, whole[end..].iter().all(|extent| *extent == 1)) {
        (true, true) => Some(elementwise(op, matrix(product(&whole[first..])), Second::Row, dtype, "")),
        (true, false) => {
            let repeats = product(&whole[..first]) > 1;
            let note = if repeats { "the second operand is read for each image, not once" } else { "" };
            Some(elementwise(op, matrix(product(&whole[end..])), Second::Column, dtype, note))
        }
        _ => None,
    }
}

/// Rows of a table by their numbers.
pub fn embedding(items: u64, rows: u64, columns: u64, dtype: DType) -> StandIn {
    StandIn::of("embedding", &format!("n{items},v{rows},d{columns}"), dtype, "")
}

/// Rotary position embedding.
pub fn rope(b: u64, h: u64, s: u64, d: u64, dtype: DType) -> StandIn {
    StandIn::of("rope", &format!("b{b},h{h},s{s},d{d}"), dtype, "")
}

/// Movement of elements whose neighbours stay neighbours: concatenation, slices, permutations of whole rows.
pub fn movement(elements: u64, dtype: DType, note: &str) -> StandIn {
    StandIn::of("copy", &format!("n{elements}"), dtype, note)
}

/// Transpose of adjacent matrices.
pub fn transpose(matrices: u64, rows: u64, columns: u64, dtype: DType) -> StandIn {
    StandIn::of("transpose", &format!("b{matrices},r{rows},c{columns}"), dtype, "")
}

/// Pooling of 2-D images over windows, `kind` `max` or `average`.
pub fn pool(image: &Conv, kind: &str, dtype: DType) -> StandIn {
    let output = image.output().unwrap_or_default();
    let cost = elementwise_cost(image.images * image.channels, &[product(&image.input)], product(&output), dtype);
    let same = |values: &[u64]| values.iter().all(|value| *value == values[0]);
    let pads: Vec<u64> = image.pads.iter().flat_map(|(before, after)| [*before, *after]).collect();
    match image.input[..] {
        [h, w] if same(&image.strides) && same(&pads) && same(&image.dilations) && image.dilations[0] == 1 => {
            let (n, c, k, kw) = (image.images, image.channels, image.kernel[0], image.kernel[1]);
            let (s, p) = (image.strides[0], pads[0]);
            let layout = if image.channels_last { "nhwc" } else { "nchw" };
            StandIn::of("pool", &format!("n{n},c{c},h{h},w{w},k{k},kw{kw},s{s},p{p},{layout},{kind}"), dtype, "")
        }
        [_, _] => StandIn::missing("its windows have unequal strides, padding or dilation", cost),
        _ => StandIn::missing("the suite pools images of two dimensions", cost),
    }
}

/// Average over a whole image of two dimensions.
pub fn global_pool(images: u64, channels: u64, [h, w]: [u64; 2], dtype: DType) -> StandIn {
    StandIn::of("pool", &format!("n{images},c{channels},h{h},w{w},oh1,ow1,nchw,adaptive"), dtype, "")
}

/// Resized images of two dimensions, `kind` `bilinear` or `nearest`.
pub fn resize([n, c, h, w]: [u64; 4], [oh, ow]: [u64; 2], kind: &str, dtype: DType, note: &str) -> StandIn {
    StandIn::of("resize", &format!("n{n},c{c},h{h},w{w},oh{oh},ow{ow},nchw,{kind}"), dtype, note)
}

/// Operation without a problem that reads tensors of some elements and writes one.
pub fn unmatched(reason: impl Into<String>, read: &[u64], written: u64, dtype: Option<DType>) -> StandIn {
    StandIn::missing(reason, elementwise_cost(1, read, written, dtype.unwrap_or(DType::F32)))
}

/// Cost of `times` repetitions that read and write elements, with one operation for each written element.
fn elementwise_cost(times: u64, read: &[u64], written: u64, dtype: DType) -> Cost {
    let bytes = |elements: u64| elements.saturating_mul(element(dtype)).saturating_mul(times);
    let read = read.iter().fold(0u64, |sum, elements| sum.saturating_add(*elements));
    Cost::new(written.saturating_mul(times), bytes(read), bytes(written))
}

/// Bytes of an element.
fn element(dtype: DType) -> u64 {
    Elem::Real.storage(dtype).bytes()
}

/// Product of extents; the largest number where it does not fit.
pub fn product(extents: &[u64]) -> u64 {
    extents.iter().fold(1u64, |product, extent| product.saturating_mul(*extent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_operands_are_rows_or_columns() {
        for (a, b, want) in [
            (&[2, 3, 8][..], &[2, 3, 8][..], Some("r1,c48,add")),
            (&[64, 64, 32], &[64, 64, 32], Some("r128,c1024,add")),
            (&[2, 3, 8], &[8], Some("r6,c8,add,row")),
            (&[2, 3, 8], &[1, 3, 8], Some("r2,c24,add,row")),
            (&[8], &[2, 3, 8], Some("r6,c8,add,row")),
            (&[2, 3, 8], &[], Some("r6,c8,add,row")),
            (&[2, 3, 8], &[2, 3, 1], Some("r6,c8,add,column")),
            (&[4, 16, 7, 7], &[16, 1, 1], Some("r64,c49,add,column")),
            (&[2, 3, 8], &[2, 1, 8], None),
        ] {
            let found = broadcast("add", a, b, DType::F32);
            let problem = want.map(|shape| format!("elementwise/fwd/{shape}/f32"));
            let said = found.map(|stand_in| match stand_in.coverage {
                Coverage::Problem { problem, .. } => problem,
                other => format!("{other:?}"),
            });
            assert_eq!(said, problem, "{a:?} {b:?}");
        }
    }

    #[test]
    fn normalisations_of_channels_are_scales() {
        for (shape, want) in [
            (&[1, 16, 7, 7][..], Some("r16,c49,mul,column")),
            (&[4, 16, 7, 7], Some("r64,c49,mul,column")),
            (&[4, 16], Some("r4,c16,mul,row")),
            (&[4], None),
        ] {
            let coverage = scaled_channels(shape, DType::F32).map(|stand_in| stand_in.coverage);
            let problem = coverage.map(|coverage| match coverage {
                Coverage::Problem { problem, note } => {
                    assert!(note.ends_with("shifts none"), "{note}");
                    problem
                }
                other => format!("{other:?}"),
            });
            assert_eq!(problem, want.map(|shape| format!("elementwise/fwd/{shape}/f32")), "{shape:?}");
        }
    }

    #[test]
    fn uneven_padding_is_part_of_the_image() {
        let conv = Conv {
            images: 1,
            channels: 3,
            filters: 8,
            input: vec![224, 224],
            kernel: vec![3, 3],
            strides: vec![2, 2],
            dilations: vec![1, 1],
            pads: vec![(0, 1), (0, 1)],
            groups: 1,
            bias: false,
            relu: false,
            channels_last: false,
        };
        let problem = |conv: &Conv| match conv.problem(DType::F32).coverage {
            Coverage::Problem { problem, .. } => problem,
            other => format!("{other:?}"),
        };
        assert_eq!(problem(&conv), "conv2d/fwd/n1,c3,m8,h225,k3,s2,nchw/f32");
        let line = Conv {
            input: vec![100],
            kernel: vec![5],
            pads: vec![(2, 2)],
            strides: vec![1],
            dilations: vec![1],
            ..conv.clone()
        };
        assert_eq!(problem(&line), "conv2d/fwd/n1,c3,m8,h1,w104,k1,kw5,nchw/f32");
        let uneven = Conv { strides: vec![1, 2], ..conv };
        assert!(problem(&uneven).contains("differ between dimensions"));
    }
}

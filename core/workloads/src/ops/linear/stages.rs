//! Stages of linear layers, for every workload that has such layers.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{
    Access, Arg, BufferSpec, Elem, Gemm, LibraryEpilogue, MatrixTiles, Stage, Tiles, by_pieces, spread, sum_of_parts,
    width,
};
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::{Caps, Dialect};

use super::super::gelu;

/// Kind of GEMM kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GemmKind {
    /// One thread per element, with operands in device memory.
    Elements,
    /// Tiles in workgroup memory.
    Tiles,
    /// Tensor cores by warp-wide instructions (CUDA).
    Mma,
    /// Tensor cores by four warps together, from tensor maps (CUDA).
    Wgmma,
    /// Cooperative matrices (WGSL).
    Coopmat,
    /// Vendor library (CUDA).
    Library,
}

/// Epilogue of a GEMM, with buffers named as in the kernel source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Epilogue {
    /// Adds the column's `bias`.
    Bias,
    /// GELU of the biased sum.
    Gelu,
    /// GELU of the biased sum, added to the `residual`.
    Residual,
    /// GELU of the biased sum, which is stored in `pre`.
    GeluSaveInput,
    /// Backward GELU: the sum is the gradient of GELU's result. It is multiplied by the slope at `pre`, and GELU of `pre` goes to
    /// `hidden`.
    GeluBackward,
    /// Multiplies the sum by SiLU of the `gate`.
    SiluGated,
    /// Multiplies the sum by GELU of the `gate`.
    GeluGated,
}

impl Epilogue {
    /// Name of the epilogue's kernel source, entry points for tiles, `mma` and `wgmma`, and the additional bindings.
    fn kernel(self) -> (&'static str, [&'static str; 3], &'static [(&'static str, Access)]) {
        match self {
            Epilogue::Bias => {
                ("bias", ["linear_tiled_bias", "linear_mma_bias", "linear_wgmma_bias"], &[("bias", Read)])
            }
            Epilogue::Gelu => {
                ("gelu", ["linear_tiled_gelu", "linear_mma_gelu", "linear_wgmma_gelu"], &[("bias", Read)])
            }
            Epilogue::Residual => (
                "residual",
                ["linear_tiled_residual", "linear_mma_residual", "linear_wgmma_residual"],
                &[("bias", Read), ("residual", Read)],
            ),
            Epilogue::GeluSaveInput => (
                "kept",
                ["linear_tiled_kept", "linear_mma_kept", "linear_wgmma_kept"],
                &[("bias", Read), ("pre", Write)],
            ),
            Epilogue::GeluBackward => (
                "slope",
                ["linear_tiled_slope", "linear_mma_slope", "linear_wgmma_slope"],
                &[("pre", Read), ("hidden", Write)],
            ),
            Epilogue::SiluGated => (
                "silu_gated",
                ["linear_tiled_silu_gated", "linear_mma_silu_gated", "linear_wgmma_silu_gated"],
                &[("gate", Read)],
            ),
            Epilogue::GeluGated => (
                "gelu_gated",
                ["linear_tiled_gelu_gated", "linear_mma_gelu_gated", "linear_wgmma_gelu_gated"],
                &[("gate", Read)],
            ),
        }
    }

    /// Kernel sources for tiles, `mma` and `wgmma`. WGSL has one for all epilogues.
    fn texts(self, dialect: Dialect) -> [&'static str; 3] {
        match (self, dialect) {
            (Epilogue::SiluGated | Epilogue::GeluGated, Dialect::Cuda) => {
                ["mlp_glu/tiled", "mlp_glu/mma", "mlp_glu/wgmma"]
            }
            _ => ["linear/tiled", "linear/mma", "linear/wgmma"],
        }
    }
}

/// Stages of GELU's backward pass, with the buffers of GELU's result and of its argument's gradient.
pub(crate) struct GeluBackwardStages {
    pub(crate) stages: Vec<Stage>,
    pub(crate) hidden: &'static str,
    pub(crate) dpre: &'static str,
}

/// Stage builder for one element type and device.
#[derive(Clone, Copy)]
pub(crate) struct Stages<'a> {
    pub(crate) dtype: DType,
    pub(crate) caps: &'a Caps,
    pub(crate) kind: GemmKind,
}

impl Stages<'_> {
    /// Bytes of `elements` elements.
    fn bytes(self, elements: u64) -> u64 {
        elements * Elem::Real.storage(self.dtype).bytes()
    }

    /// Operations and bytes of a GEMM.
    fn cost(self, gemm: Gemm) -> Cost {
        let [a, b, c] = gemm.elements().map(|elements| self.bytes(elements));
        Cost::new(gemm.flops(), a + b, c)
    }

    /// GEMM without epilogue: `c = a·b`.
    pub(crate) fn gemm(self, gemm: Gemm, [a, b, c]: [&'static str; 3]) -> Stage {
        let stage = match self.kind {
            GemmKind::Elements => gemm.naive("matmul/naive", "matmul_naive"),
            GemmKind::Tiles => gemm.tiled(self.caps, Tiles::DEFAULT),
            GemmKind::Mma => gemm.mma("matmul/mma", "matmul_mma"),
            GemmKind::Wgmma => {
                let stage = gemm.wgmma(self.caps, "matmul/wgmma", "matmul_wgmma", [a, b, c], [], &[]);
                return stage.cost(self.cost(gemm));
            }
            GemmKind::Coopmat => gemm.coopmat(self.caps, MatrixTiles::DEFAULT, "matmul/coopmat"),
            GemmKind::Library => gemm.library("cublaslt_matmul", LibraryEpilogue::Plain),
        };
        stage.args([("a", a, Read), ("b", b, Read), ("c", c, Write)]).cost(self.cost(gemm))
    }

    /// GEMM by tiles or on matrix units with a fused epilogue. `buffers` are those of [`Epilogue`], in its order.
    ///
    /// # Panics
    /// No fused kernel of that kind.
    pub(crate) fn fused(
        self,
        gemm: Gemm,
        epilogue: Epilogue,
        [a, b, c]: [&'static str; 3],
        buffers: &[&'static str],
    ) -> Stage {
        let (name, [tiled, mma, wgmma], parameters) = epilogue.kernel();
        let [of_tiles, of_mma, of_wgmma] = epilogue.texts(self.caps.dialect);
        let more = parameters.iter().zip(buffers).map(|((parameter, access), buffer)| (*parameter, *buffer, *access));
        let stage = match self.kind {
            GemmKind::Wgmma => {
                // All but the bias are matrices like C.
                let (bias, like_c): (Vec<_>, Vec<_>) = more.clone().partition(|(parameter, ..)| *parameter == "bias");
                let bias = bias.into_iter().map(Arg::from);
                gemm.wgmma(self.caps, of_wgmma, wgmma, [a, b, c], bias, &like_c)
            }
            GemmKind::Tiles => gemm.tiled_then(self.caps, Tiles::DEFAULT, of_tiles, tiled, epilogue != Epilogue::Bias),
            GemmKind::Mma => gemm.mma(of_mma, mma),
            GemmKind::Coopmat => gemm.coopmat(self.caps, MatrixTiles::DEFAULT, "linear/coopmat"),
            GemmKind::Elements | GemmKind::Library => panic!("only tiles and matrix units do more than multiply"),
        };
        let whole = self.bytes(gemm.batch * gemm.m * gemm.n);
        let Cost { flops, read, written } = self.cost(gemm);
        let (also_read, also_written) = match epilogue {
            Epilogue::Bias | Epilogue::Gelu => (self.bytes(gemm.n), 0),
            Epilogue::Residual => (self.bytes(gemm.n) + whole, 0),
            Epilogue::GeluSaveInput => (self.bytes(gemm.n), whole),
            Epilogue::GeluBackward => (whole, whole),
            Epilogue::SiluGated | Epilogue::GeluGated => (whole, 0),
        };
        let cost = Cost::new(flops.0, read.0 + also_read, written.0 + also_written);
        let stage = stage.consts(&[("EPILOGUE", name)]).cost(cost);
        match self.kind {
            // It has its arguments.
            GemmKind::Wgmma => stage,
            _ => stage.args([("a", a, Read), ("b", b, Read), ("c", c, Write)].into_iter().chain(more)),
        }
    }

    /// GEMM by the library with an epilogue of its own.
    pub(crate) fn library(
        self,
        gemm: Gemm,
        epilogue: LibraryEpilogue,
        [a, b, c]: [&'static str; 3],
        bias: &'static str,
    ) -> Stage {
        let Cost { flops, read, written } = self.cost(gemm);
        gemm.library("cublaslt_matmul", epilogue)
            .args([("a", a, Read), ("b", b, Read), ("c", c, Write), ("bias", bias, Read)])
            .cost(Cost::new(flops.0, read.0 + self.bytes(gemm.n), written.0))
    }

    /// GEMM with a column bias in one stage.
    pub(crate) fn with_bias(self, gemm: Gemm, names: [&'static str; 3], bias: &'static str) -> Stage {
        match self.kind {
            GemmKind::Library => self.library(gemm, LibraryEpilogue::Bias, names, bias),
            _ => self.fused(gemm, Epilogue::Bias, names, &[bias]),
        }
    }

    /// Stages of `hidden = gelu(a·b + bias)`. GELU's argument is stored in `pre` if it is kept.
    pub(crate) fn with_gelu(
        self,
        gemm: Gemm,
        [a, b, hidden]: [&'static str; 3],
        bias: &'static str,
        kept: Option<&'static str>,
    ) -> Vec<Stage> {
        match (self.kind, kept) {
            // The library stores GELU's argument in an order of its own.
            (GemmKind::Library, Some(pre)) => vec![
                self.with_bias(gemm, [a, b, pre], bias),
                gelu::forward_stage(gemm.batch * gemm.m * gemm.n, self.dtype, self.caps, [pre, hidden]),
            ],
            (GemmKind::Library, None) => vec![self.library(gemm, LibraryEpilogue::BiasGelu, [a, b, hidden], bias)],
            (_, Some(pre)) => vec![self.fused(gemm, Epilogue::GeluSaveInput, [a, b, hidden], &[bias, pre])],
            (_, None) => vec![self.fused(gemm, Epilogue::Gelu, [a, b, hidden], &[bias])],
        }
    }

    /// Stages of GELU's backward pass, with `a·b` as the gradient of its result: multiplication by the slope at `pre`, and
    /// recomputation of GELU's result. If the argument need not be kept, CUDA overwrites it. It also overwrites `dhidden`, the
    /// library's intermediate.
    pub(crate) fn gelu_backward(self, gemm: Gemm, [a, b]: [&'static str; 2], kept: bool) -> GeluBackwardStages {
        let over = self.caps.dialect == Dialect::Cuda && !kept;
        let hidden = if over { "pre" } else { "hidden" };
        match self.kind {
            GemmKind::Library => {
                let dpre = if over { "dhidden" } else { "dpre" };
                let elements = gemm.batch * gemm.m * gemm.n;
                let names = ["pre", "dhidden", hidden, dpre];
                let stages = vec![
                    self.gemm(gemm, [a, b, "dhidden"]).label("dhidden"),
                    gelu::through_stage(elements, self.dtype, self.caps, names).label("dpre"),
                ];
                GeluBackwardStages { stages, hidden, dpre }
            }
            _ => {
                let stage = self.fused(gemm, Epilogue::GeluBackward, [a, b, "dpre"], &["pre", hidden]).label("dpre");
                GeluBackwardStages { stages: vec![stage], hidden, dpre: "dpre" }
            }
        }
    }

    /// Separate epilogue stage over a matrix of `rows` × `columns`. It reads `from` and writes `to`; `buffers` are those of the
    /// bias and of the residual.
    ///
    /// # Panics
    /// An epilogue that exists only in the GEMM's own stage.
    pub(crate) fn finish(
        self,
        [rows, columns]: [u64; 2],
        epilogue: Epilogue,
        [from, to]: [&'static str; 2],
        buffers: &[&'static str],
    ) -> Stage {
        let (entry, operations, reads) = match epilogue {
            Epilogue::Bias => ("linear_finish_bias", 1, 1),
            Epilogue::Gelu => ("linear_finish_gelu", 11, 1),
            Epilogue::Residual => ("linear_finish_residual", 12, 2),
            _ => panic!("a stage of its own has other ways"),
        };
        let (elements, width) = (rows * columns, width(columns, self.dtype, self.caps));
        let text = "linear/finish";
        let more = ["bias", "residual"].into_iter().zip(buffers).map(|(parameter, buffer)| (parameter, *buffer, Read));
        let whole = self.bytes(elements);
        by_pieces(elements / width, width, text, entry)
            .consts(&[("BIAS_PIECES", (columns / width) as u32)])
            .args([("product", from, Read), ("out", to, Write)].into_iter().chain(more))
            .cost(Cost::new(operations * elements, reads * whole + self.bytes(columns), whole))
    }

    /// GEMM over many rows, stored as [`Layout::Tn`], with few result elements (split K). Workgroups compute parts of the rows, and
    /// a second stage sums them. The buffer `parts` has [`parts_of_rows`] parts in the element type: for f32.
    pub(crate) fn over_rows(self, gemm: Gemm, [a, b, c]: [&'static str; 3], parts: &'static str) -> Vec<Stage> {
        let count = parts_of_rows(gemm);
        if count == 1 {
            return vec![self.gemm(gemm, [a, b, c]).label(c)];
        }
        let columns = gemm.m * gemm.n;
        // Parts of the rows are adjacent, like the matrices of a batch.
        let of_parts = Gemm { k: gemm.k / count, ..gemm }.batch(count);
        let sum = self.added_up([count, columns], [parts, c]);
        vec![self.gemm(of_parts, [a, b, parts]).label(format!("{c}_parts")), sum.label(c)]
    }

    /// GEMM of a weight's gradient, over many rows. Warpgroups compute parts of the rows in f32 if this is faster, and a second
    /// stage sums them. The buffer `parts` is that of [`split_parts`].
    pub(crate) fn of_weight(self, gemm: Gemm, [a, b, c]: [&'static str; 3], parts: &'static str) -> Vec<Stage> {
        let count = gemm.parts_of_k();
        if self.kind != GemmKind::Wgmma || count == 1 {
            return vec![self.gemm(gemm, [a, b, c]).label(c)];
        }
        let [.., elements] = gemm.elements();
        let sum = by_pieces(elements / SUM_WIDTH, SUM_WIDTH, "linear/split", "linear_split")
            .consts(&[("PARTS", count as u32)])
            .args([("parts", parts, Read), ("out", c, Write)])
            .cost(Cost::new(count * elements, 4 * count * elements, self.bytes(elements)));
        vec![self.in_parts(gemm, [a, b, parts]).label(format!("{c}_parts")), sum.label(c)]
    }

    /// Stage by warpgroups with sums of parts of the depth in f32.
    fn in_parts(self, gemm: Gemm, [a, b, parts]: [&'static str; 3]) -> Stage {
        let Cost { flops, read, .. } = self.cost(gemm);
        let [.., elements] = gemm.elements();
        gemm.wgmma_parts(self.caps, "matmul/wgmma", "matmul_wgmma_parts", [a, b, parts]).cost(Cost::new(
            flops.0,
            read.0,
            4 * gemm.parts_of_k() * elements,
        ))
    }

    /// GEMM of few rows by warpgroups in parts of the depth. A second stage adds the sums of the buffer `parts`, with an epilogue
    /// of `finish`. See [`few_rows_in_parts`].
    pub(crate) fn in_parts_then(
        self,
        gemm: Gemm,
        epilogue: Epilogue,
        [a, b, c]: [&'static str; 3],
        buffers: &[&'static str],
    ) -> Vec<Stage> {
        let (entry, operations, reads) = match epilogue {
            Epilogue::Bias => ("linear_split_bias", 1, 0),
            Epilogue::Gelu => ("linear_split_gelu", 11, 0),
            Epilogue::Residual => ("linear_split_residual", 12, 1),
            _ => panic!("a split GEMM has no such epilogue"),
        };
        let (count, [.., elements]) = (gemm.parts_of_k(), gemm.elements());
        let more = ["bias", "residual"].into_iter().zip(buffers).map(|(parameter, buffer)| (parameter, *buffer, Read));
        let read = 4 * count * elements + reads * self.bytes(elements) + self.bytes(gemm.n);
        let sum = by_pieces(elements / SUM_WIDTH, SUM_WIDTH, "linear/split_finish", entry)
            .consts(&[("PARTS", count as u32), ("BIAS_PIECES", (gemm.n / SUM_WIDTH) as u32)])
            .args([("parts", "parts", Read), ("out", c, Write)].into_iter().chain(more))
            .cost(Cost::new((count + operations) * elements, read, self.bytes(elements)));
        vec![self.in_parts(gemm, [a, b, "parts"]).label(format!("{c}_parts")), sum.label(c)]
    }

    /// Sums of the columns of a matrix, in parts in the buffer `parts`. See [`most_parts`].
    pub(crate) fn columns(self, [rows, columns]: [u64; 2], [from, parts, to]: [&'static str; 3]) -> [Stage; 2] {
        let width = width(columns, self.dtype, self.caps);
        let across = (columns / width).div_ceil(32);
        let wanted = self.caps.compute_units.map_or(UNITS, u64::from) * GROUPS_PER_UNIT / across;
        let count = wanted.max(1).min(most_parts(rows));
        let consts = [("ROWS", rows), ("COLUMNS", columns), ("WIDTH", width), ("PARTS", count), ("DOWN", DOWN)];
        let text = "linear/columns";
        let first = Stage::kernel("linear_columns", text, "linear_columns")
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([32, DOWN as u32, 1])
            .grid(spread(across * count))
            .shared((32 * DOWN * width * 4) as u32)
            .args([("x", from, Read), ("sums", parts, Write)])
            .cost(Cost::new(rows * columns, self.bytes(rows * columns), count * columns * 4));
        [first, self.added_up([count, columns], [parts, to])]
    }

    /// Sum over `count` parts, each a row of `columns` columns.
    fn added_up(self, [count, columns]: [u64; 2], [parts, to]: [&'static str; 2]) -> Stage {
        sum_of_parts(count, columns, self.caps, "rmsnorm/parts", "rmsnorm_parts")
            .consts(&[("COLUMNS", columns as u32)])
            .args([("parts", parts, Read), ("dgamma", to, Write)])
    }
}

/// Elements whose parts a thread adds.
const SUM_WIDTH: u64 = 4;
/// Rows that a workgroup reads at a time.
const DOWN: u64 = 8;
/// Multiprocessors of a large GPU, for a device that reports no number; workgroups for each.
const UNITS: u64 = 128;
const GROUPS_PER_UNIT: u64 = 8;

/// Number of row parts of a GEMM over rows: a power of two that divides the rows, so that parts are equal.
pub(crate) fn parts_of_rows(gemm: Gemm) -> u64 {
    /// Small tiles of all parts, and the fewest rows of a part.
    const TILES: u64 = 512;
    const FEWEST: u64 = 32;
    let most = (TILES / gemm.tiles(64)).min(gemm.k / FEWEST);
    [64, 32, 16, 8, 4, 2].into_iter().find(|parts| *parts <= most && gemm.k.is_multiple_of(*parts)).unwrap_or(1)
}

/// Buffer for the parts of each of these GEMMs in turn. See [`Stages::of_weight`].
pub(crate) fn split_parts(name: &'static str, gemms: &[Gemm]) -> BufferSpec {
    let of = |gemm: &Gemm| match gemm.parts_of_k() {
        1 => 1,
        parts => parts * gemm.m * gemm.n,
    };
    BufferSpec::scratch(name, Elem::F32, &[gemms.iter().map(of).max().unwrap_or(1)])
}

/// Largest number of rows of a GEMM whose depth is split because it has few rows.
const FEW_ROWS: u64 = 64;

/// Checks whether a device computes a GEMM of few rows by warpgroups in parts of the depth.
///
/// # Errors
/// Reason why it does not.
pub(crate) fn few_rows_in_parts(gemm: Gemm, dtype: DType, caps: &Caps) -> Result<(), String> {
    gemm.wgmma_available(dtype, caps)?;
    match (gemm.m, gemm.parts_of_k()) {
        (m, _) if m > FEW_ROWS => Err(format!("wgmma_parts splits the depth of up to {FEW_ROWS} rows, not {m}")),
        (_, 1) => {
            Err("wgmma_parts has one part: tiles fill the device, or a launch that adds parts takes longer".to_owned())
        }
        _ => Ok(()),
    }
}

/// Buffer `parts` of GEMMs that [`few_rows_in_parts`] accepts.
pub(crate) fn few_rows_scratch(gemm: Gemm, dtype: DType) -> Option<BufferSpec> {
    let split = dtype != DType::F32 && gemm.m <= FEW_ROWS && gemm.parts_of_k() > 1;
    split.then(|| split_parts("parts", &[gemm]))
}

/// Largest number of parts of the column sums of `rows` rows.
pub(crate) fn most_parts(rows: u64) -> u64 {
    rows.div_ceil(DOWN).min(512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Layout;
    use parallax_schema::testing::caps;

    #[test]
    fn products_over_rows_are_made_in_parts_of_as_many_rows() {
        let caps = caps();
        let made = Stages { dtype: DType::F32, caps: &caps, kind: GemmKind::Tiles };
        // Few elements and many rows; too few rows; a number of rows without divisor; enough elements for the device.
        for ([m, n, rows], parts) in
            [([64, 256, 65_536], 64), ([64, 2, 96], 2), ([64, 256, 4097], 1), ([2048, 2048, 65_536], 1)]
        {
            let gemm = Gemm::new(m, n, rows).layout(Layout::Tn);
            assert_eq!(parts_of_rows(gemm), parts, "{gemm:?}");
            let stages = made.over_rows(gemm, ["a", "b", "c"], "parts");
            assert_eq!(stages.len(), if parts == 1 { 1 } else { 2 });
            assert_eq!(stages[0].cost.flops.0, gemm.flops(), "every row once");
            let last = stages.last().expect("one");
            assert_eq!((&*last.label, last.args.last().map(|arg| arg.buffer)), ("c", Some("c")));
        }
    }
}

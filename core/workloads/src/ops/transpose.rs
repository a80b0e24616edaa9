//! Transpose: `out[b, j, i] = x[b, i, j]` for adjacent matrices of `r` rows and `c` columns.
//!
//! There is no arithmetic. Either the reads or the writes of neighbouring threads are a whole row apart, unless a workgroup
//! transposes a tile in its own memory. The variants differ only in this. Bytes are counted as of a copy.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Stage, Variant, Workload,
    indexable, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::copy::{stress_inputs, tolerance};

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "transpose of matrices",
        axes: const {
            &[Axis::optional("b", "matrices", 1, 1), Axis::extent("r", "rows"), Axis::same_as("c", "columns", "r")]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        // Extents multiply to less than 2^58, so their product does not overflow.
        validate: |shape| indexable(shape["b"] * shape["r"] * shape["c"]),
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            tolerance,
            Reference::new(
                |p, _| p["r"],
                |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("r2048")
        .shapes(shapes)
        .awkward(&[
            "r1",
            "r1,c7",
            "r7,c1",
            "b3,r5,c9",
            "r33,c65",
            "r37,c101",
            "b2,r8",
            "b2,r72,c40",
            "r64",
            "b3,r136,c200",
            "r264,c72",
        ])
        .huge(&["r65536,c32784"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one element per thread: reads are neighbours, writes a row apart", naive),
            Variant::kernel(
                "tiled",
                "a workgroup transposes a tile of 32 × 32 in its memory, whose rows are one longer so that columns lie in \
                     different banks: writes are neighbours too",
                tiled,
            ),
            Variant::kernel(
                "vector",
                "16 bytes per access on either side, and elements of 16 bits transposed in pairs",
                vector,
            )
            .available(whole_vectors),
        ])
        .fallback(&["vector", "tiled", "naive"])
        .stress(stress_inputs())],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r2048", "r8192", "r65536,c1024"],
        _ => &["r2048", "r8192", "r16384", "r65536,c1024", "r1000000,c64", "b4096,r128,c256"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, r, c) = (p["b"], p["r"], p["c"]);
    vec![BufferSpec::input("x", Elem::Real, &[b, r, c], normal), BufferSpec::output("out", Elem::Real, &[b, c, r])]
}

fn cost(p: &Problem) -> Cost {
    let bytes = Matrices::of(p).bytes();
    Cost::new(0, bytes, bytes)
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (matrix, column) = (row / p["c"], row % p["c"]);
    for (slot, i) in out.iter_mut().zip(0..) {
        *slot = inputs.at(X, (matrix * p["r"] + i) * p["c"] + column);
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (rows, columns) = (p["r"] as usize, p["c"] as usize);
    for (out, x) in outputs[0].chunks_exact_mut(rows * columns).zip(inputs[X].f32().chunks_exact(rows * columns)) {
        out.par_chunks_mut(HOST_BLOCK * rows).enumerate().for_each(|(block, out)| {
            let mut tile = [[0.0; HOST_TILE]; HOST_TILE];
            for first in (0..rows).step_by(HOST_BLOCK) {
                for (strip, out) in out.chunks_mut(HOST_TILE * rows).enumerate() {
                    let column = block * HOST_BLOCK + strip * HOST_TILE;
                    let below = rows.min(first + HOST_BLOCK);
                    (first..below)
                        .step_by(HOST_TILE)
                        .for_each(|row| turn_tile(&mut tile, out, x, [rows, columns], [row, column]));
                }
            }
        });
    }
}

/// Rows and columns of a tile of the host. A row of it is a line of the caches.
const HOST_TILE: usize = 16;
/// Rows and columns of the tiles that a thread transposes together. Their pages are looked up once.
const HOST_BLOCK: usize = 32;

/// Rows and columns of the pieces of a whole tile. A piece is transposed in four vectors.
const PIECE: usize = 4;

/// Transposes the tile of `x` at a row and a column to a strip of result rows. It goes through a copy, so that each line of the caches
/// is read and written as a whole. Rows that are a power of two apart share few places in the caches.
fn turn_tile(
    tile: &mut [[f32; HOST_TILE]; HOST_TILE],
    out: &mut [f32],
    x: &[f32],
    [rows, columns]: [usize; 2],
    [row, column]: [usize; 2],
) {
    let (height, width) = (HOST_TILE.min(rows - row), HOST_TILE.min(columns - column));
    let lines = (0..height).map(|i| &x[(row + i) * columns + column..][..width]);
    let results = out.chunks_exact_mut(rows).map(|out| &mut out[row..row + height]);
    if [height, width] == [HOST_TILE; 2] {
        return turn_whole(lines, results);
    }
    for (i, from) in lines.enumerate() {
        from.iter().zip(&mut *tile).for_each(|(x, line)| line[i] = *x);
    }
    results.zip(&*tile).for_each(|(out, line)| out.copy_from_slice(&line[..height]));
}

/// Returns the transpose of a piece. Its elements are written out, so that it becomes shuffles of vectors.
fn transposed([a, b, c, d]: [[f32; PIECE]; PIECE]) -> [[f32; PIECE]; PIECE] {
    [[a[0], b[0], c[0], d[0]], [a[1], b[1], c[1], d[1]], [a[2], b[2], c[2], d[2]], [a[3], b[3], c[3], d[3]]]
}

/// Transposes the lines of a whole tile, in pieces. Lengths are constants, so that no copy is a call.
fn turn_whole<'a>(lines: impl Iterator<Item = &'a [f32]>, results: impl Iterator<Item = &'a mut [f32]>) {
    let mut copy = [[0.0; HOST_TILE]; HOST_TILE];
    for (copy, line) in copy.iter_mut().zip(lines) {
        *copy = *line.first_chunk().expect("a whole line");
    }
    let mut tile = [[0.0; HOST_TILE]; HOST_TILE];
    for down in 0..HOST_TILE / PIECE {
        for across in 0..HOST_TILE / PIECE {
            let line =
                |i: usize| *copy[down * PIECE + i][across * PIECE..].first_chunk().expect("pieces fill the tile");
            let turned = transposed([line(0), line(1), line(2), line(3)]);
            for j in 0..PIECE {
                tile[across * PIECE + j][down * PIECE..][..PIECE].copy_from_slice(&turned[j]);
            }
        }
    }
    for (result, line) in results.zip(&tile) {
        *result.first_chunk_mut().expect("a whole line") = *line;
    }
}

/// Threads of a workgroup.
const THREADS: u64 = 256;
/// Rows and columns of a tile of `tiled`.
const TILE: u64 = 32;
/// Rows of a tile of `vector`. Its columns are 128 bytes of a row, and in CUDA 256.
const VECTOR_ROWS: u64 = 64;

/// Adjacent matrices of one type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrices {
    /// Number of matrices.
    pub(super) count: u64,
    /// Rows of each before the transposition.
    pub(super) rows: u64,
    /// Columns of each before the transposition.
    pub(super) columns: u64,
    /// Type of the elements.
    pub(super) dtype: DType,
}

impl Matrices {
    fn of(p: &Problem) -> Matrices {
        Matrices { count: p["b"], rows: p["r"], columns: p["c"], dtype: p.dtype }
    }

    /// Stage that transposes the matrices of one buffer into another, by the fastest kernel for their extents.
    pub(super) fn stage(&self, caps: &Caps, buffers: [&'static str; 2]) -> Stage {
        match self.whole_vectors() {
            true => self.vector(caps, buffers),
            false => self.tiled(buffers),
        }
    }

    fn elements(&self) -> u64 {
        self.count * self.rows * self.columns
    }

    fn bytes(&self) -> u64 {
        self.elements() * Elem::Real.storage(self.dtype).bytes()
    }

    /// Elements in 16 bytes.
    fn per_vector(&self) -> u64 {
        16 / Elem::Real.storage(self.dtype).bytes()
    }

    fn whole_vectors(&self) -> bool {
        [self.rows, self.columns].iter().all(|extent| extent.is_multiple_of(self.per_vector()))
    }

    /// Number of tiles of these extents.
    fn tiles(&self, rows: u64, columns: u64) -> u64 {
        self.count * self.rows.div_ceil(rows) * self.columns.div_ceil(columns)
    }

    fn kernel(
        &self,
        threads: u64,
        [text, entry]: [&'static str; 2],
        groups: u64,
        [from, to]: [&'static str; 2],
    ) -> Stage {
        let consts = [("MATRICES", self.count), ("ROWS", self.rows), ("COLUMNS", self.columns), ("THREADS", threads)];
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .args([("x", from, Read), ("out", to, Write)])
            .threads([threads as u32, 1, 1])
            .grid(spread(groups))
            .cost(Cost::new(0, self.bytes(), self.bytes()))
    }

    fn naive(&self, buffers: [&'static str; 2]) -> Stage {
        self.kernel(THREADS, ["transpose/naive", "transpose_naive"], self.elements().div_ceil(THREADS), buffers)
    }

    fn tiled(&self, buffers: [&'static str; 2]) -> Stage {
        self.kernel(THREADS, ["transpose/tiled", "transpose_tiled"], self.tiles(TILE, TILE), buffers)
            .consts(&[("TILE", TILE as u32)])
            .shared((TILE * (TILE + 1) * 4) as u32)
    }

    fn vector(&self, caps: &Caps, buffers: [&'static str; 2]) -> Stage {
        // Each thread reads two vectors, and eight neighbours 128 bytes.
        let wide = if caps.dialect == Dialect::Wgsl { 1 } else { 2 };
        // Words of 32 bits: one element, or two of neighbouring rows.
        let (columns, per_word) = (8 * wide * self.per_vector(), self.per_vector() / 4);
        let pitch = VECTOR_ROWS / per_word + 1;
        let tiles = self.tiles(VECTOR_ROWS, columns);
        self.kernel(wide * THREADS, ["transpose/vector", "transpose_vector"], tiles, buffers)
            .consts(&[
                ("TILE_ROWS", VECTOR_ROWS as u32),
                ("TILE_COLUMNS", columns as u32),
                ("PER_VECTOR", self.per_vector() as u32),
                ("PITCH", pitch as u32),
            ])
            .shared((columns * pitch * 4) as u32)
    }
}

const BUFFERS: [&str; 2] = ["x", "out"];

fn naive(p: &Problem, _caps: &Caps) -> Program {
    Matrices::of(p).naive(BUFFERS).into()
}

fn tiled(p: &Problem, _caps: &Caps) -> Program {
    Matrices::of(p).tiled(BUFFERS).into()
}

fn whole_vectors(p: &Problem, _caps: &Caps) -> Result<(), String> {
    let matrices = Matrices::of(p);
    match matrices.whole_vectors() {
        true => Ok(()),
        false => {
            Err(format!("rows of 16 bytes on either side: rows and columns are multiples of {}", matrices.per_vector()))
        }
    }
}

fn vector(p: &Problem, caps: &Caps) -> Program {
    Matrices::of(p).vector(caps, BUFFERS).into()
}

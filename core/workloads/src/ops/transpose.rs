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
    let bytes = p["b"] * p["r"] * p["c"] * Elem::Real.storage(p.dtype).bytes();
    Cost::new(0, bytes, bytes)
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (matrix, column) = (row / p["c"], row % p["c"]);
    for (slot, i) in out.iter_mut().zip(0..) {
        *slot = inputs.at(X, (matrix * p["r"] + i) * p["c"] + column);
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (rows, columns, x) = (p["r"] as usize, p["c"] as usize, inputs[X].f32());
    outputs[0].par_chunks_mut(rows).enumerate().for_each(|(row, out)| {
        let first = row / columns * rows * columns + row % columns;
        for (slot, from) in out.iter_mut().zip(x[first..].iter().step_by(columns)) {
            *slot = *from;
        }
    });
}

/// Threads of a workgroup.
const THREADS: u64 = 256;

fn stage(p: &Problem, threads: u64, text: &'static str, entry: &'static str, groups: u64) -> Stage {
    let consts = [("MATRICES", p["b"]), ("ROWS", p["r"]), ("COLUMNS", p["c"]), ("THREADS", threads)];
    Stage::kernel(entry, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .args([("x", Read), ("out", Write)])
        .threads([threads as u32, 1, 1])
        .grid(spread(groups))
        .cost(cost(p))
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    let groups = (p["b"] * p["r"] * p["c"]).div_ceil(THREADS);
    stage(p, THREADS, "transpose/naive", "transpose_naive", groups).into()
}

/// Rows and columns of a tile of `tiled`.
const TILE: u64 = 32;

fn tiled(p: &Problem, _caps: &Caps) -> Program {
    let tiles = p["b"] * p["r"].div_ceil(TILE) * p["c"].div_ceil(TILE);
    stage(p, THREADS, "transpose/tiled", "transpose_tiled", tiles)
        .consts(&[("TILE", TILE as u32)])
        .shared((TILE * (TILE + 1) * 4) as u32)
        .into()
}

/// Rows of a tile of `vector`. Its columns are 128 bytes of a row, and in CUDA 256.
const VECTOR_ROWS: u64 = 64;

/// Elements in 16 bytes.
fn per_vector(p: &Problem) -> u64 {
    16 / Elem::Real.storage(p.dtype).bytes()
}

fn whole_vectors(p: &Problem, _caps: &Caps) -> Result<(), String> {
    let n = per_vector(p);
    match p["r"].is_multiple_of(n) && p["c"].is_multiple_of(n) {
        true => Ok(()),
        false => Err(format!("rows of 16 bytes on either side: rows and columns are multiples of {n}")),
    }
}

fn vector(p: &Problem, caps: &Caps) -> Program {
    // Each thread reads two vectors, and eight neighbours 128 bytes.
    let wide = if caps.dialect == Dialect::Wgsl { 1 } else { 2 };
    // Words of 32 bits: one element, or two of neighbouring rows.
    let (columns, per_word) = (8 * wide * per_vector(p), per_vector(p) / 4);
    let tiles = p["b"] * p["r"].div_ceil(VECTOR_ROWS) * p["c"].div_ceil(columns);
    let pitch = VECTOR_ROWS / per_word + 1;
    stage(p, wide * THREADS, "transpose/vector", "transpose_vector", tiles)
        .consts(&[
            ("TILE_ROWS", VECTOR_ROWS as u32),
            ("TILE_COLUMNS", columns as u32),
            ("PER_VECTOR", per_vector(p) as u32),
            ("PITCH", pitch as u32),
        ])
        .shared((columns * pitch * 4) as u32)
        .into()
}

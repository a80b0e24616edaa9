//! Scan: running sums, `out[i] = Σ x[j]` over `j ≤ i` (inclusive) or `j < i` (exclusive).
//!
//! Sums are computed in f32 and rounded to the element type. Formula: Blelloch, "Prefix Sums and Their Applications" (1990). The
//! single pass of `decoupled` is that of Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
//!
//! Bytes: those of a copy. Operations: one addition an element.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{any, one, smallest_normal, subnormal, sums_of_zeros, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, CudaLaunch, Elem, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Problem, Program, Reference,
    Role, Rows, Stage, StressInput, Tolerance, Variant, Workload, has_async_copies, indexable, normal, parts_of,
    spread, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::copy::row_len;

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "running sums",
        axes: const {
            &[
                Axis::extent("n", "elements"),
                Axis::word("kind", "whether an element is part of its own sum", &["inclusive", "exclusive"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"]),
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            tolerance,
            Reference::new(|p, _| 2 * row_len(p), reference),
            OfNan::MIXED,
        )
        .headline("n8388608,inclusive")
        .shapes(shapes)
        .awkward(&[
            "n1,inclusive",
            "n1,exclusive",
            "n7,exclusive",
            "n1009,inclusive",
            "n4096,exclusive",
            "n4100,inclusive",
            "n16392,exclusive",
            "n40961,inclusive",
            // More tiles than stretches if the number of multiprocessors is unknown.
            "n525319,exclusive",
            "n2101256,inclusive",
        ])
        .huge(&["n2148532224,inclusive"])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "three_pass",
                "stretches are summed, their sums are scanned, and stretches are scanned from there: the input is \
                     read twice",
                |p, caps| three_pass(p, caps, 1),
            ),
            Variant::kernel("vector", "the same with accesses of 16 bytes (WGSL: four elements)", |p, caps| {
                three_pass(p, caps, width(p["n"], p.dtype, caps))
            }),
            Variant::kernel(
                "decoupled",
                "one pass: a block publishes the sum of its tile at once, and looks back over those of the tiles before it \
                     until one has its running sum. It waits for blocks that have begun, which CUDA carries on; WebGPU does \
                     not promise that a workgroup that others wait for goes on, so that there it might wait for ever. Which \
                     sums it finds is not said, so that those of several runs may differ in their last bits",
                decoupled,
            )
            .only_in(&[Dialect::Cuda]),
            Variant::kernel(
                "staged",
                "as decoupled with tiles of half the threads, which wait in shared memory instead of registers, so that more \
                 of them are resident",
                staged,
            )
            .only_in(&[Dialect::Cuda])
            .available(staged_available),
        ])
        .fallback(&["staged", "decoupled", "vector", "three_pass"])
        .stress(stress_inputs())],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n8388608,inclusive", "n8388608,exclusive", "n67108864,inclusive"],
        _ => &["n8388608,inclusive", "n67108864,inclusive", "n67108864,exclusive", "n268435456,inclusive"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let n = p["n"];
    let out = BufferSpec::output("out", Elem::Real, &[n]);
    vec![
        BufferSpec::input("x", Elem::Real, &[n], normal),
        BufferSpec { role: Role::Output { row_len: row_len(p) }, ..out },
        BufferSpec::scratch("parts", Elem::F32, &[MOST_PARTS]),
        // Of `decoupled` and `staged`: 64 bits for the number of started tiles, and for each tile.
        BufferSpec::scratch("states", Elem::U32, &[1 + (n / cuda_width(p)).div_ceil(SMALLEST_TILE), 2]),
    ]
}

fn cost(p: &Problem) -> Cost {
    let bytes = p["n"] * Elem::Real.storage(p.dtype).bytes();
    Cost::new(p["n"], bytes, bytes)
}

/// Number of additions that a number passes through: within tiles, and in the longest chain of tiles.
fn depth(p: &Problem) -> f64 {
    64.0 + p["n"] as f64 / (THREADS * ROWS) as f64
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 8.0 * 2f64.powi(-24) * (p["n"] as f64 * depth(p)).sqrt() + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "sums of m numbers of variance one are about √m, and each addition is off by u times its sum: over all of \
                 them that is u·√(n·depth), and eight times as much has a probability of e^-32 (Higham and Mary 2019); the \
                 result is rounded once",
    }
}

/// Tolerance for numbers of one sign.
fn rising(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 0.0,
        rel: 2.0 * p.dtype.unit_roundoff() + 8.0 * 2f64.powi(-24) * depth(p).sqrt(),
        reason: "no partial sum is larger than the result, and the roundings of `depth` additions grow with its root; the \
                 result is rounded once",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, applies, fills, tolerance| StressInput::new(name, about, fills, tolerance).applies(applies);
    vec![
        set("zeros", "all zero", any, |_| vec![("x", zero)], |p, _| sums_of_zeros(p)),
        set(
            "equal",
            "all one: each sum is its own number",
            |p| wide(p) || p["n"] <= 60_000,
            |_| vec![("x", one)],
            rising,
        ),
        set("huge", "up to 1e29: sums stay within f32", wide, |_| vec![("x", |_, draw| 1e29 * draw.uniform())], rising),
        set(
            "subnormal",
            "numbers too small to be normal: their sums, or zeros where the device flushes them",
            any,
            |p| vec![("x", subnormal(p))],
            |p, output| Tolerance {
                abs: (p["n"] + 1) as f64 * smallest_normal(p),
                reason: "each number may be taken for zero, and so may a sum; the result is rounded once",
                ..rising(p, output)
            },
        ),
        set(
            "not finite",
            "an infinity among numbers: so are all sums from there on, and none before",
            any,
            |_| vec![("x", |shape, draw| if draw.index == shape["n"] / 2 { f64::INFINITY } else { draw.normal() })],
            tolerance,
        ),
    ]
}

/// Reference of the rows, from the sum of all previous rows.
fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let length = row_len(p);
    let sum = |row: u64| (row * length..(row + 1) * length).map(|i| inputs.at(X, i)).sum::<f64>();
    let sums: Vec<f64> = (0..p["n"] / length).into_par_iter().map(sum).collect();
    let start = |sum: &mut f64, row: f64| {
        let before = *sum;
        *sum += row;
        Some(before)
    };
    let before: Vec<f64> = sums.into_iter().scan(0.0, start).collect();
    Box::new(move |_, row, out| {
        let mut sum = before[row as usize];
        for (slot, at) in out.iter_mut().zip(row * length..) {
            let earlier = sum;
            sum += inputs.at(X, at);
            *slot = if p.shape.has("exclusive") { earlier } else { sum };
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    const PIECE: usize = 1 << 16;
    let x = inputs[X].f32();
    let sum = |x: &[f32]| x.iter().map(|x| f64::from(*x)).sum::<f64>();
    let sums: Vec<f64> = x.par_chunks(PIECE).map(sum).collect();
    let exclusive = p.shape.has("exclusive");
    let pieces = outputs[0].par_chunks_mut(PIECE).zip(x.par_chunks(PIECE)).enumerate();
    pieces.for_each(|(piece, (out, x))| {
        let mut sum: f64 = sums[..piece].iter().sum();
        for (out, x) in out.iter_mut().zip(x) {
            let earlier = sum;
            sum += f64::from(*x);
            *out = if exclusive { earlier } else { sum } as f32;
        }
    });
}

/// Threads of a workgroup.
const THREADS: u64 = 256;
/// Pieces of a thread in a tile.
const ROWS: u64 = 4;

/// Pieces of a thread in a tile of `decoupled`, limited by registers. Tiles wait for each other, so that few tiles are best.
/// Measured on an H200 with 67 108 864 elements of f32: 204 µs by 4, 184 by 8, 176 by 12, 191 by 16.
fn decoupled_rows(width: u64) -> u64 {
    if width == 8 { 6 } else { 12 }
}

/// Threads of a tile of `staged`, pieces of each, and blocks that a multiprocessor of compute capability 9.0 has room for.
const STAGED: [u64; 3] = [128, 12, 8];
/// Fewest pieces of a tile of `decoupled` and `staged`.
const SMALLEST_TILE: u64 = STAGED[0] * STAGED[1];

/// Elements of a piece in CUDA, independent of the device.
fn cuda_width(p: &Problem) -> u64 {
    let most = 16 / Elem::Real.storage(p.dtype).bytes();
    (1 << p["n"].trailing_zeros().min(3)).min(most)
}

/// Stage over tiles, with `rows` pieces per thread.
fn over_tiles(p: &Problem, [width, rows]: [u64; 2], text: &'static str, entry: &'static str) -> Stage {
    let count = p["n"] / width;
    let consts =
        [("COUNT", count), ("WIDTH", width), ("THREADS", THREADS), ("ROWS", rows), ("TILES", tiles(count, rows))];
    Stage::kernel(entry, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("EXCLUSIVE", p.shape.has("exclusive"))])
        .threads([THREADS as u32, 1, 1])
}

/// Number of tiles of `count` pieces.
fn tiles(count: u64, rows: u64) -> u64 {
    count.div_ceil(THREADS * rows)
}

fn three_pass(p: &Problem, caps: &Caps, width: u64) -> Program {
    let tiles = tiles(p["n"] / width, ROWS);
    // Stretches of `stretch` tiles, one for each workgroup, and none without a tile.
    let stretch = tiles.div_ceil(parts_of(tiles, caps));
    let parts = tiles.div_ceil(stretch);
    let Cost { read, written, .. } = cost(p);
    let stretches = |stage: Stage| {
        let consts = [("PARTS", parts), ("STRETCH", stretch), ("ROW_THREADS", THREADS)];
        stage.consts(&consts.map(|(name, value)| (name, value as u32))).grid(spread(parts))
    };
    let sums = stretches(over_tiles(p, [width, ROWS], "scan/sums", "scan_sums"))
        .args([("x", Read), ("parts", Write)])
        .shared(4 * THREADS as u32)
        .cost(Cost::new(p["n"], read.0, 4 * parts));
    let starts = Stage::kernel("scan_starts", "scan/starts", "scan_starts")
        .consts(&[("PARTS", parts as u32), ("THREADS", THREADS as u32), ("MOST_PARTS", MOST_PARTS as u32)])
        .args([("parts", Write)])
        .threads([THREADS as u32, 1, 1])
        .shared(4 * THREADS as u32)
        .cost(Cost::new(parts, 4 * parts, 4 * parts));
    let scanned = stretches(over_tiles(p, [width, ROWS], "scan/tiles", "scan_tiles"))
        .args([("x", Read), ("parts", Read), ("out", Write)])
        .shared(16 * THREADS as u32)
        .cost(Cost::new(p["n"], read.0 + 4 * parts, written.0));
    Program { stages: vec![sums, starts, scanned] }
}

fn decoupled(p: &Problem, _: &Caps) -> Program {
    let width = cuda_width(p);
    let pass = over_tiles(p, [width, decoupled_rows(width)], "scan/decoupled", "scan_decoupled")
        .args([("x", Read), ("states", Write), ("out", Write)])
        .grid(spread(tiles(p["n"] / width, decoupled_rows(width))))
        .cost(cost(p));
    Program { stages: vec![Stage::fill("no state", "states", 0), pass] }
}

fn staged_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    has_async_copies(caps)?;
    match cuda_width(p) * Elem::Real.storage(p.dtype).bytes() {
        16 => Ok(()),
        _ => Err(format!("tiles are copied 16 bytes at a time: {} elements are no whole pieces", p["n"])),
    }
}

fn staged(p: &Problem, _: &Caps) -> Program {
    let ([threads, rows, blocks], count) = (STAGED, p["n"] / cuda_width(p));
    let tiles = count.div_ceil(SMALLEST_TILE);
    let consts = [
        ("COUNT", count),
        ("WIDTH", cuda_width(p)),
        ("THREADS", threads),
        ("ROWS", rows),
        ("TILES", tiles),
        ("BLOCKS", blocks),
    ];
    let pass = Stage::kernel("scan_staged", "scan/staged", "scan_staged")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("EXCLUSIVE", p.shape.has("exclusive"))])
        .threads([threads as u32, 1, 1])
        .args([("x", Read), ("states", Write), ("out", Write)])
        .grid(spread(tiles))
        .cuda(CudaLaunch { dynamic_shared_bytes: (16 * SMALLEST_TILE) as u32, ..CudaLaunch::default() })
        .cost(cost(p));
    Program { stages: vec![Stage::fill("no state", "states", 0), pass] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::Value;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn stretches_cover_all_tiles_and_none_is_empty() {
        for n in [1u64, 1024, 1025, 525_319, 2_101_256, 1 << 26, 2_148_532_224] {
            for caps in [caps(), hopper()] {
                for variant in ["three_pass", "vector"] {
                    let case = parse_case(&format!("scan/fwd/n{n},inclusive/f32/{variant}")).expect("valid");
                    let program = case.program(&caps).expect("kernels");
                    let value = |name: &str| {
                        let consts = &program.stages[2].kernel_launch().expect("a kernel").consts;
                        match consts.iter().find(|(known, _)| *known == name) {
                            Some((_, Value::U32(value))) => u64::from(*value),
                            other => panic!("{name}: {other:?}"),
                        }
                    };
                    let (tiles, parts, stretch) = (value("TILES"), value("PARTS"), value("STRETCH"));
                    assert!(parts * stretch >= tiles && (parts - 1) * stretch < tiles, "{case}");
                    assert!(parts <= MOST_PARTS, "{case}: {parts}");
                }
            }
        }
    }
}

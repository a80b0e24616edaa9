//! Computation on data that comes from the host in pieces: each piece is uploaded and then processed.
//!
//! Every piece is the terms `b` of fused multiply-adds as in `fma`, with factors `a` on the device: `out[i] = Σ_j acc[j]` after `k`
//! rounds of `acc[j] = a[i, j mod 2]·acc[j] + b[i,j]` on eight accumulators that start at `b[i,j]`. The number of rounds decides
//! whether the link or the arithmetic takes longer. If both take about as long, their overlap halves the total.
//!
//! Operations: `2·8·k` per element of the output. Bytes: all pieces read from the host once, all outputs written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, HostBuffer, Inputs, OfNan, OpSpec, Place, Problem, Program, Reference, Role,
    Shape, Stage, StressInput, Tolerance, Variant, Workload, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};

use super::fma::{ACCUMULATORS, FACTORS};

const A: usize = 0;

/// Pieces in host memory. The number of names limits that of pieces.
const PIECES: [&str; 8] = ["piece0", "piece1", "piece2", "piece3", "piece4", "piece5", "piece6", "piece7"];
/// Output of each piece.
const OUTPUTS: [&str; 8] = ["out0", "out1", "out2", "out3", "out4", "out5", "out6", "out7"];
/// Alternating device buffers of the pieces.
const ROOMS: [&str; 2] = ["even", "odd"];

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "pieces uploaded and computed on: whether copies hide behind kernels",
        axes: const {
            &[
                Axis::extent("n", "elements that a piece gives"),
                Axis::extent("k", "rounds"),
                Axis::optional("c", "pieces", 1, 8),
                Axis::word("memory", "memory of the pieces on the host", &["pinned", "pageable"]),
            ]
        },
        dtypes: &[DType::F32],
        validate: |shape| match (shape["n"], shape["c"]) {
            (n, _) if n > MOST => Err(format!("kernels count threads in 32 bits: at most {MOST} of them")),
            (_, c) if c > PIECES.len() as u64 => Err(format!("at most {} pieces", PIECES.len())),
            _ => Ok(()),
        },
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            |_, _| Tolerance {
                abs: 0.0,
                // Second-order terms are under a hundredth of the first.
                rel: 1.02 * 12.0 * 2f64.powi(-24),
                reason: "a round adds at most 2u of the accumulator and shrinks the previous value by a < 1/2, a geometric \
                         series of sum 4u for rising positive values; eight are summed in f32",
            },
            Reference::new(
                |p, _| ACCUMULATORS * p["k"],
                |p, inputs| {
                    Box::new(move |piece, row, out| out[0] = reference(p, inputs, piece, row))
                },
            ),
            OfNan::MIXED,
        )
        .headline("n32768,k512,pinned")
        .shapes(shapes)
        .awkward(&["n1,k1,c1,pinned", "n3,k15,c2,pageable", "n257,k17,c3,pinned", "n1009,k5,pinned"])
        .host(host)
        .variants(vec![
            Variant::kernel("serial", "a piece is uploaded, then computed on, then the next", |p, _| {
                program(p, false)
            }),
            Variant::kernel(
                "overlapped",
                "uploads on a queue of their own, into two rooms in turn: while one piece is computed on, the \
                 next one comes; from pageable memory the driver copies through a buffer of its own, and little \
                 overlaps; with one queue it is `serial` under another name",
                |p, _| program(p, true),
            ),
        ])
        .fallback(&["overlapped", "serial"])
        .stress(vec![StressInput::new(
            "zeros",
            "zero times zero plus zero, over and over",
            |p| ["a"].iter().chain(&PIECES[..pieces(p)]).map(|name| (*name, zero as Fill)).collect(),
            exact,
        )])],
    }
}

/// Largest number of elements of a piece: indices must not overflow 32 bits even if a grid extends past the end.
const MOST: u64 = 1 << 28;

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n32768,k512,pinned", "n262144,k2048,pinned", "n262144,k2048,pageable"],
        _ => &["n32768,k512,pinned", "n262144,k2048,pinned", "n262144,k2048,pageable", "n1048576,k2048,pinned"],
    }
}

/// Number in [1/4, 1/2).
fn factor(_: &Shape, draw: Draw) -> f64 {
    0.25 + 0.2475 * draw.uniform()
}

/// Number in [1/4, 1), so that accumulators rise towards `b / (1 - a) < 2`, without overflow or cancellation.
fn term(_: &Shape, draw: Draw) -> f64 {
    0.25 + 0.7425 * draw.uniform()
}

fn pieces(p: &Problem) -> usize {
    p["c"] as usize
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let n = p["n"];
    let place = if p.shape.has("pinned") { Place::HostPinned } else { Place::HostPageable };
    let piece = |name: &&'static str| BufferSpec::input(name, Elem::Real, &[n, ACCUMULATORS], term).at(place);
    let room = |name: &&'static str| BufferSpec::scratch(name, Elem::Real, &[n, ACCUMULATORS]);
    let output = |name: &&'static str| BufferSpec {
        role: Role::Output { row_len: 1 },
        ..BufferSpec::output(name, Elem::F32, &[n])
    };
    std::iter::once(BufferSpec::input("a", Elem::Real, &[n, FACTORS], factor))
        .chain(PIECES[..pieces(p)].iter().map(piece))
        .chain(ROOMS.iter().map(room))
        .chain(OUTPUTS[..pieces(p)].iter().map(output))
        .collect()
}

/// Operations, and bytes of one piece and of its output.
fn of_piece(p: &Problem) -> (u64, u64, u64) {
    let n = p["n"];
    (2 * ACCUMULATORS * p["k"] * n, 4 * ACCUMULATORS * n, 4 * n)
}

fn cost(p: &Problem) -> Cost {
    let (flops, piece, output) = of_piece(p);
    let (n, c) = (p["n"], p["c"]);
    Cost::new(flops * c, piece * c + 4 * FACTORS * n, output * c)
}

fn reference(p: &Problem, inputs: &Inputs, piece: usize, row: u64) -> f64 {
    let chain = |j: u64| {
        let a = inputs.at(A, row * FACTORS + j % FACTORS);
        let b = inputs.at(A + 1 + piece, row * ACCUMULATORS + j);
        (0..p["k"]).fold(b, |acc, _| a * acc + b)
    };
    (0..ACCUMULATORS).map(chain).sum()
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    const EACH: usize = ACCUMULATORS as usize;
    const TWO: usize = FACTORS as usize;
    let a = inputs[A].f32();
    for (piece, out) in outputs.iter_mut().enumerate() {
        let terms = inputs[A + 1 + piece].f32().par_chunks(EACH);
        out.par_iter_mut().zip(a.par_chunks(TWO)).zip(terms).for_each(|((out, a), b)| {
            let b: [f32; EACH] = std::array::from_fn(|j| b[j]);
            let mut acc = b;
            for _ in 0..p["k"] {
                for (j, (acc, b)) in acc.iter_mut().zip(b).enumerate() {
                    *acc = a[j % TWO] * *acc + b;
                }
            }
            *out = acc.iter().sum();
        });
    }
}

/// Threads of a workgroup.
const THREADS: u64 = 256;

/// Program with kernels on queue 0. Overlapped, uploads are on queue 1. They start after the kernel before last has released their
/// buffer.
fn program(p: &Problem, overlapped: bool) -> Program {
    let (flops, piece, output) = of_piece(p);
    let consts = [("N", p["n"] as u32), ("K", p["k"] as u32), ("THREADS", THREADS as u32)];
    let mut stages = Vec::new();
    for i in 0..pieces(p) {
        let room = ROOMS[i % ROOMS.len()];
        let upload = Stage::copy(format!("upload {i}"), PIECES[i], room).cost(Cost::new(0, piece, piece));
        let compute = Stage::kernel(format!("compute {i}"), "fma/scalar", "fma_scalar")
            .consts(&consts)
            .args([("a", "a", Read), ("b", room, Read), ("out", OUTPUTS[i], Write)])
            .threads([THREADS as u32, 1, 1])
            .grid(spread(p["n"].div_ceil(THREADS)))
            .cost(Cost::new(flops, piece + 4 * FACTORS * p["n"], output));
        // Two stages per piece: this buffer's last kernel is three stages back.
        let left: Vec<usize> = (2 * i).checked_sub(3).into_iter().collect();
        match overlapped {
            true => stages.extend([upload.queue(1, &left), compute.queue(0, &[2 * i])]),
            false => stages.extend([upload, compute]),
        }
    }
    Program { stages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::{QueueCommand, Queues};
    use parallax_schema::device::Dialect;
    use parallax_schema::testing::caps;

    fn queues(variant: &str) -> (Vec<Stage>, Queues) {
        let case = parse_case(&format!("upload_compute/fwd/n256,k1,c4,pinned/f32/{variant}")).expect("valid");
        let stages =
            case.program(&parallax_schema::device::Caps { dialect: Dialect::Cuda, ..caps() }).expect("kernels").stages;
        let queues = Queues::from_stages(&stages).expect("nothing touches a buffer at the same time as a writer");
        (stages, queues)
    }

    #[test]
    fn uploads_run_ahead_by_one_piece_and_no_more() {
        let (stages, overlapped) = queues("overlapped");
        assert_eq!((stages.len(), overlapped.queues, queues("serial").1.queues), (8, 2, 1));
        // Marks that an upload waits for on its queue (1), and a kernel on its own (0).
        let mut marked = std::collections::BTreeMap::new();
        let (mut waits, mut last) = (Vec::new(), None);
        for order in &overlapped.orders {
            match *order {
                QueueCommand::Run { stage, .. } => last = Some(stage),
                QueueCommand::Mark { mark, .. } => drop(marked.insert(mark, last)),
                QueueCommand::Wait { queue, mark } => waits.push((queue, last, marked[&mark])),
            }
        }
        // The fork; kernels 0 and 1; upload 2 after kernel 0, its kernel; upload 3 after kernel 1, its kernel; the join.
        let want = [
            (1, None, None),
            (0, Some(0), Some(0)),
            (0, Some(2), Some(2)),
            (1, Some(3), Some(1)),
            (0, Some(4), Some(4)),
            (1, Some(5), Some(3)),
            (0, Some(6), Some(6)),
            (0, Some(7), Some(7)),
        ];
        assert_eq!(waits, want);
    }

    #[test]
    fn a_room_that_is_not_waited_for_is_found_out() {
        let (mut stages, _) = queues("overlapped");
        stages[4].after.clear();
        let said = Queues::from_stages(&stages).expect_err("upload 2 writes the input of kernel 0");
        assert!(said.contains("`compute 0` and `upload 2` touch `even`"), "{said}");
    }
}

//! Common parts of the collectives: a row for each rank, a reference by blocks, host code, and the stage.
//!
//! Every buffer has a row for each rank. A row consists of blocks of one length. A block of a result is a block of the input, or a
//! sum of several; a workload states which.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Collective, Draw, Elem, GPUS, HostBuffer, HostCode, Inputs, OfNan, OpSpec, Place, Problem,
    Program, Reference, ReferenceCode, Role, Rows, Shape, Stage, StressInput, Tolerance, Variant, Workload, has_gpus,
    normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

const X: usize = 0;

/// Rank and number of a block of the input.
pub(crate) type Block = (u64, u64);

/// Definition of a collective by blocks.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// Elements of a block.
    pub(crate) length: fn(&Problem) -> u64,
    /// Returns the blocks of the input whose sum is a block of the result: of the number of ranks, a rank and its block.
    pub(crate) sources: fn(u64, Block) -> Vec<Block>,
}

/// Parts in which collectives differ.
pub(crate) struct Exchange {
    /// Description of the workload.
    pub(crate) about: &'static str,
    /// Kind.
    pub(crate) collective: Collective,
    /// Returns the buffers.
    pub(crate) buffers: fn(&Problem) -> Vec<BufferSpec>,
    /// Multiply-adds of a row of the result.
    pub(crate) row_cost: fn(&Problem, usize) -> u64,
    /// The reference.
    pub(crate) rows: ReferenceCode,
    /// The host code.
    pub(crate) host: HostCode,
}

/// Returns the workload of a collective.
pub(crate) fn workload(exchange: Exchange) -> Workload {
    let Exchange { about, collective, buffers, row_cost, rows, host } = exchange;
    let (tolerance, stress) = match adds(collective) {
        true => (of_sums as fn(&Problem, usize) -> Tolerance, stress_of_sums()),
        false => (exact as fn(&Problem, usize) -> Tolerance, crate::ops::copy::stress_inputs()),
    };
    let parts = matches!(collective, Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll);
    let validate: fn(&Shape) -> Result<(), String> = if parts { in_parts } else { |_| Ok(()) };
    let awkward = if parts { IN_PARTS } else { WHOLE };
    Workload {
        name: "",
        probes: &[],
        about,
        axes: const { &[Axis::extent("n", "elements of a message"), GPUS] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![
            OpSpec::new(
                Direction::Fwd,
                Rate::Bytes,
                buffers,
                cost,
                tolerance,
                Reference::new(row_cost, rows),
                OfNan::Kept,
            )
            .exchange(collective)
            .headline("n4194304")
            .shapes(shapes)
            .awkward(awkward)
            .host(host)
            .variants(vec![
                Variant::kernel("nccl", "one call of NCCL on each GPU, all of one group", |p, _| program(p))
                    .only_in(&[Dialect::Cuda])
                    .available(has_gpus),
            ])
            .stress(stress)
            .only_in(&[Dialect::Cuda], "GPUs exchange data through NCCL: `--target cuda --gpus N`"),
        ],
    }
}

/// Odd lengths, single elements, and other numbers of ranks than two.
const WHOLE: &[&str] = &["n1", "n3", "n1009", "n65537", "n1,gpus3", "n1009,gpus5"];
/// The same lengths of a part.
const IN_PARTS: &[&str] = &["n2", "n6", "n2018", "n131074", "n3,gpus3", "n5045,gpus5"];

/// Messages of a kilobyte to a gigabyte in f32.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n256", "n16384", "n1048576", "n16777216", "n268435456"],
        _ => &[
            "n256",
            "n1024",
            "n4096",
            "n16384",
            "n65536",
            "n262144",
            "n1048576",
            "n4194304",
            "n16777216",
            "n67108864",
            "n268435456",
        ],
    }
}

/// Whether the result is a sum over ranks.
fn adds(collective: Collective) -> bool {
    matches!(collective, Collective::AllReduce | Collective::ReduceScatter)
}

fn in_parts(shape: &Shape) -> Result<(), String> {
    let (n, gpus) = (shape["n"], shape[GPUS.key]);
    match n.is_multiple_of(gpus) {
        true => Ok(()),
        false => Err(format!("{n} elements have no equal part for each of {gpus} GPUs")),
    }
}

/// Elements of one rank's part of a message.
pub(crate) fn part(p: &Problem) -> u64 {
    p["n"] / p.gpus()
}

/// Elements of a compared row, if the block allows.
const ROW: u64 = 1 << 20;

/// Row length for checks: a block is cut into the longest rows of equal length.
fn row_len(block: u64) -> u64 {
    1 << block.trailing_zeros().min(ROW.trailing_zeros())
}

/// Returns input and result, of `sent` and `received` elements a rank. Rows for checks divide a block.
pub(crate) fn buffers(p: &Problem, [sent, received]: [u64; 2], blocks: Blocks) -> Vec<BufferSpec> {
    let role = Role::Output { row_len: row_len((blocks.length)(p)) };
    let out = BufferSpec { role, ..BufferSpec::output("out", Elem::Real, &[p.gpus(), received]) };
    vec![BufferSpec::input("x", Elem::Real, &[p.gpus(), sent], normal).at(Place::EachRank), out.at(Place::EachRank)]
}

/// Elements of input and result on one rank.
fn lengths(p: &Problem) -> [u64; 2] {
    let buffers = p.buffers();
    [0, 1].map(|at| buffers[at].dims[1])
}

/// Cost of one rank. The ranks work at the same time, and ceilings are those of one GPU. Each reads its row and writes its result
/// once. Of the additions of a sum, each does an equal share.
fn cost(p: &Problem) -> Cost {
    let bytes = |at: usize| p.buffers()[at].bytes_of_rank(p.dtype).0;
    let additions =
        p.form().exchange.filter(|exchange| adds(*exchange)).map_or(0, |_| (p.gpus() - 1) * p["n"] / p.gpus());
    Cost::new(additions, bytes(0), bytes(1))
}

fn program(p: &Problem) -> Program {
    let collective = p.form().exchange.expect("declared by `workload`");
    Stage::collective(collective.name(), collective).args([("x", Read), ("out", Write)]).cost(cost(p)).into()
}

/// Returns the cost of a row: an addition for each source of each element.
pub(crate) fn row_cost(p: &Problem, blocks: Blocks) -> u64 {
    row_len((blocks.length)(p)) * (blocks.sources)(p.gpus(), (0, 0)).len() as u64
}

/// Returns the rows of the result.
pub(crate) fn rows<'a>(p: &'a Problem, inputs: &'a Inputs, blocks: Blocks) -> Rows<'a> {
    let [sent, received] = lengths(p);
    let (gpus, length) = (p.gpus(), (blocks.length)(p));
    Box::new(move |_, row, out| {
        let first = row * out.len() as u64;
        let (rank, at) = (first / received, first % received);
        let sources = (blocks.sources)(gpus, (rank, at / length));
        for (i, slot) in (at % length..).zip(out) {
            let element = |(source, block): &Block| inputs.at(X, source * sent + block * length + i);
            *slot = sources.iter().map(element).reduce(|sum, x| sum + x).expect("a block has a source");
        }
    })
}

/// Elements that a thread of the host processes at a time.
const PIECE: usize = 1 << 14;

/// Computes the result of every rank on the host.
pub(crate) fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>], blocks: Blocks) {
    let [sent, received] = lengths(p);
    let (gpus, length, x) = (p.gpus(), (blocks.length)(p), inputs[X].f32());
    let of_rank = received / length;
    for (number, out) in (0..).zip(outputs[0].chunks_mut(length as usize)) {
        let sources = (blocks.sources)(gpus, (number / of_rank, number % of_rank));
        out.par_chunks_mut(PIECE).enumerate().for_each(|(piece, to)| {
            let elements = to.len();
            let from = |(rank, block): Block| {
                let first = (rank * sent + block * length) as usize + piece * PIECE;
                &x[first..first + elements]
            };
            to.copy_from_slice(from(sources[0]));
            for source in &sources[1..] {
                to.iter_mut().zip(from(*source)).for_each(|(sum, x)| *sum += x);
            }
        });
    }
}

/// Largest absolute value of a normal draw, rounded up.
const LARGEST: f64 = 3.5;

/// Tolerance of sums of one draw of each rank.
fn of_sums(p: &Problem, _output: usize) -> Tolerance {
    let (u, gpus) = (p.dtype.unit_roundoff(), p.gpus() as f64);
    Tolerance {
        abs: 2f64.powi(-150) + u * LARGEST * gpus * (gpus - 2.0).max(0.0),
        rel: u,
        reason: "ranks are added one after the other, and each sum is rounded to the element type: the last rounding is off by u \
                 of the result, each of the gpus - 2 before it by u of a sum below 3.5 gpus",
    }
}

/// Tolerance of sums of numbers of one sign.
fn of_one_sign(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 2f64.powi(-150),
        rel: p.dtype.unit_roundoff() * p.gpus() as f64,
        reason: "no partial sum is larger than the result, and each of the gpus - 1 roundings is off by u of it",
    }
}

fn stress_of_sums() -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero", |_| vec![("x", zero)], exact),
        set("equal", "all one: the number of ranks", |_| vec![("x", one)], of_one_sign),
        set(
            "huge",
            "sums up to 6e4 in f16 and 1e38 otherwise: they stay within the type",
            |p| {
                vec![if wide(p) {
                    ("x", |shape: &Shape, draw: Draw| 1e38 / shape[GPUS.key] as f64 * draw.uniform())
                } else {
                    ("x", |shape: &Shape, draw: Draw| 6e4 / shape[GPUS.key] as f64 * draw.uniform())
                }]
            },
            of_one_sign,
        ),
        set(
            "subnormal",
            "numbers too small to be normal: a small sum, or zero where the GPU flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: (p.gpus() + 1) as f64 * smallest_normal(p),
                rel: p.dtype.unit_roundoff() * p.gpus() as f64,
                reason: "each number may be taken for zero, and so may the sum",
            },
        ),
        set(
            "not finite",
            "infinities and NaN among numbers: opposite infinities give NaN",
            |_| {
                vec![("x", |_, draw| match draw.index % 7 {
                    0 => f64::INFINITY,
                    2 => f64::NEG_INFINITY,
                    3 => f64::NAN,
                    _ => draw.normal(),
                })]
            },
            of_sums,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_problem;

    /// Whole numbers: element `i` of the input is `i`.
    fn results(problem: &str) -> Vec<Vec<f64>> {
        let p = parse_problem(problem).expect("valid");
        let mut inputs = p.inputs(1);
        let count = p.buffers()[X].len;
        inputs.replace(X, (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect()).expect("as long");
        let [_, received] = lengths(&p);
        let row_len = p.buffers()[1].role.row_len().expect("an output");
        let rows = (p.form().reference.rows)(&p, &inputs);
        let mut out = vec![0.0; p.buffers()[1].len as usize];
        (0..).zip(out.chunks_mut(row_len as usize)).for_each(|(row, slots)| rows(0, row, slots));
        let mut by_host = vec![vec![f32::NAN; out.len()]];
        let x = HostBuffer::F32((0..count).map(|i| i as f32).collect());
        p.form().host.expect("every collective has host code")(&p, &[x], &mut by_host);
        assert!(out.iter().zip(&by_host[0]).all(|(a, b)| *a == f64::from(*b)), "{problem}: {out:?} {by_host:?}");
        out.chunks(received as usize).map(<[f64]>::to_vec).collect()
    }

    #[test]
    fn every_rank_gets_what_the_collective_gives_it() {
        // Rank 0 sends 0, 1, …; rank 1 the numbers behind them.
        for (problem, want) in [
            ("all_reduce/fwd/n2/f32", vec![vec![2.0, 4.0], vec![2.0, 4.0]]),
            ("all_reduce/fwd/n1,gpus3/f32", vec![vec![3.0], vec![3.0], vec![3.0]]),
            ("all_gather/fwd/n4/f32", vec![vec![0.0, 1.0, 2.0, 3.0], vec![0.0, 1.0, 2.0, 3.0]]),
            ("reduce_scatter/fwd/n4/f32", vec![vec![4.0, 6.0], vec![8.0, 10.0]]),
            ("broadcast/fwd/n3/f32", vec![vec![0.0, 1.0, 2.0], vec![0.0, 1.0, 2.0]]),
            ("all_to_all/fwd/n4/f32", vec![vec![0.0, 1.0, 4.0, 5.0], vec![2.0, 3.0, 6.0, 7.0]]),
            ("send_recv/fwd/n1,gpus3/f32", vec![vec![2.0], vec![0.0], vec![1.0]]),
        ] {
            assert_eq!(results(problem), want, "{problem}");
        }
    }

    #[test]
    fn messages_and_costs_are_those_of_a_rank() {
        for (problem, message, cost) in [
            ("all_reduce/fwd/n6,gpus3/f32", 24, Cost::new(4, 24, 24)),
            ("all_gather/fwd/n6,gpus3/f16", 12, Cost::new(0, 4, 12)),
            ("reduce_scatter/fwd/n6,gpus3/f32", 24, Cost::new(4, 24, 8)),
            ("broadcast/fwd/n6,gpus3/bf16", 12, Cost::new(0, 12, 12)),
            ("all_to_all/fwd/n6,gpus3/f32", 24, Cost::new(0, 24, 24)),
            ("send_recv/fwd/n6/f32", 24, Cost::new(0, 24, 24)),
        ] {
            let p = parse_problem(problem).expect("valid");
            assert_eq!((p.message().0, p.cost()), (message, cost), "{problem}");
            assert!(p.workload.spans_gpus(), "{problem}");
        }
        let whole = crate::all().iter().filter(|workload| workload.spans_gpus()).map(|workload| workload.name);
        let mut named = Collective::ALL.map(Collective::name);
        named.sort_unstable();
        assert_eq!(whole.collect::<Vec<_>>(), named);
    }

    #[test]
    fn a_message_without_equal_parts_is_refused() {
        for problem in ["all_gather/fwd/n3/f32", "reduce_scatter/fwd/n8,gpus3/f32", "all_to_all/fwd/n1/f32"] {
            let why = parse_problem(problem).expect_err(problem).to_string();
            assert!(why.contains("no equal part"), "{why}");
        }
        assert!(parse_problem("all_reduce/fwd/n3,gpus1/f32").is_err(), "one rank exchanges nothing");
    }
}

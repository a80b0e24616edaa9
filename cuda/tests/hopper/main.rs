//! What came with compute capability 9.0: clusters, the copy engine (TMA) and matrix products by four warps (wgmma), through
//! the texts in `kernels/lib` that wrap them.
//!
//! NVRTC compiles the kernels of these tests everywhere; they run where there is such a device. Everything that could wait
//! for ever gives up and traps.

use std::sync::atomic::{AtomicBool, Ordering};

use parallax_cuda::source::{assemble_all, embedded};
use parallax_cuda::{Arch, Cuda, CudaOptions, compile_source, open};
use parallax_ir::device::{Batch, Prepared, Profiler};
use parallax_ir::{
    Access, Arg, Case, CudaLaunch, Inputs, KernelSources, Program, Role, Stage, Swizzle, TensorMap, Value, load,
};
use parallax_schema::case::{DType, Storage};
use parallax_schema::device::Launching;
use parallax_workloads::parse_case;
use pollster::block_on;
use rayon::prelude::*;

const FILES: [(&str, &str); 6] = [
    ("hopper/cluster.cu", include_str!("cluster.cu")),
    ("hopper/multicast.cu", include_str!("multicast.cu")),
    ("hopper/negate.cu", include_str!("negate.cu")),
    ("hopper/patience.cuh", include_str!("patience.cuh")),
    ("hopper/product.cu", include_str!("product.cu")),
    ("hopper/tile.cu", include_str!("tile.cu")),
];

/// The program's texts and those of these tests.
fn texts() -> KernelSources {
    let own = |file: &str| FILES.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned());
    embedded().with_lookup(move |file| Ok(own(file)))
}

/// A kernel on the buffers of a case, which is not what it computes.
#[derive(Clone)]
struct Trial {
    case: Case,
    stage: Stage,
    /// What it must leave in the output, or in its first part: a value, and how far off is still right.
    want: Vec<(f64, f64)>,
    /// What the output holds.
    element: Storage,
}

impl Trial {
    fn new(case: &str, stage: Stage) -> Trial {
        let case = parse_case(case).expect("a valid case");
        let element = storage(case.problem.dtype);
        Trial { case, stage, want: Vec::new(), element }
    }

    fn inputs(&self) -> Inputs {
        self.case.problem.inputs(1)
    }

    fn exactly(self, want: impl IntoIterator<Item = f64>) -> Trial {
        Trial { want: want.into_iter().map(|value| (value, 0.0)).collect(), ..self }
    }

    fn program(&self) -> Program {
        self.stage.clone().into()
    }
}

fn storage(dtype: DType) -> Storage {
    parallax_ir::Elem::Real.storage(dtype)
}

fn mapped(parameter: &'static str, buffer: &'static str, access: Access, map: TensorMap) -> Arg {
    Arg::from((parameter, buffer, access)).mapped(map)
}

fn launch(cluster: u32, dynamic_shared_bytes: u32) -> CudaLaunch {
    CudaLaunch { cluster: [cluster, 1, 1], dynamic_shared_bytes }
}

/// Sums over clusters of four blocks of 64 threads, less what the next block has.
fn cluster() -> Trial {
    const THREADS: u64 = 64;
    let stage = Stage::kernel("sums over clusters", "hopper/cluster", "cluster_sums")
        .consts(&[("THREADS", THREADS as u32)])
        .args([("x", Access::Read), ("out", Access::Write)])
        .threads([THREADS as u32, 1, 1])
        .grid([8, 1, 1])
        .cuda(launch(4, 0));
    let trial = Trial::new("copy/fwd/n512/f32/scalar", stage);
    let inputs = trial.inputs();
    let of = |cluster: u64, rank: u64, thread: u64| inputs.at(0, (cluster * 4 + rank) * THREADS + thread) as f32;
    let want = |i: u64| {
        let (cluster, rank, thread) = (i / THREADS / 4, i / THREADS % 4, i % THREADS);
        let sum = (0..4).fold(0.0, |sum: f32, rank| sum + of(cluster, rank, thread));
        f64::from(sum - of(cluster, (rank + 1) % 4, thread))
    };
    let want: Vec<f64> = (0..512).map(want).collect();
    trial.exactly(want)
}

/// Where the copy engine puts the byte that has this place in the dense box.
fn swizzled(at: u64, swizzle: Swizzle) -> u64 {
    let row = (at >> 7)
        & match swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 3,
            Swizzle::Bytes128 => 7,
        };
    at ^ row << 4
}

/// Boxes of a matrix of 37 x 37, whose rows have room for 40, from three rows and 16 bytes before it to beyond its end.
fn tile(dtype: DType, swizzle: Swizzle) -> Trial {
    const ROWS: u64 = 16;
    const ROWS_BEFORE: u64 = 3;
    const EXTENT: u64 = 37;
    const PITCH: u64 = 40;
    let element = storage(dtype);
    let columns = swizzle.bytes().unwrap_or(48) / element.bytes();
    let columns_before = 16 / element.bytes();
    let grid = [(EXTENT + columns_before).div_ceil(columns), (EXTENT + ROWS_BEFORE).div_ceil(2 * ROWS)];
    let map = TensorMap {
        dims: vec![EXTENT, EXTENT],
        strides: vec![PITCH * element.bytes()],
        tile: vec![ROWS as u32, columns as u32],
        swizzle,
    };
    let stage = Stage::kernel(format!("boxes, {swizzle:?}"), "hopper/tile", "tile")
        .consts(&[("ROWS", ROWS as u32), ("ROWS_BEFORE", ROWS_BEFORE as u32)])
        .consts(&[("COLUMNS", columns as u32), ("COLUMNS_BEFORE", columns_before as u32)])
        .cuda(launch(1, map.box_bytes(element) as u32))
        .args([mapped("x", "x", Access::Read, map), ("out", Access::Write).into()])
        .threads([128, 1, 1])
        .grid([grid[0] as u32, grid[1] as u32, 1]);
    let trial = Trial::new(&format!("copy/fwd/n8192/{}/scalar", dtype.name()), stage);
    let inputs = trial.inputs();
    let mut want = vec![0.0; (grid[0] * grid[1] * 2 * ROWS * columns) as usize];
    for box_row in 0..2 * grid[1] {
        for box_column in 0..grid[0] {
            for i in 0..ROWS * columns {
                let (row, column) = (box_row * ROWS + i / columns, box_column * columns + i % columns);
                let inside = |at: u64, before: u64| (before..before + EXTENT).contains(&at);
                let to = swizzled(i * element.bytes(), swizzle) / element.bytes();
                let first = (box_row * grid[0] + box_column) * ROWS * columns;
                if inside(row, ROWS_BEFORE) && inside(column, columns_before) {
                    want[(first + to) as usize] = inputs.at(0, (row - ROWS_BEFORE) * PITCH + column - columns_before);
                }
            }
        }
    }
    trial.exactly(want)
}

/// Tiles of 32 x 32 that four blocks load together, each into all.
fn multicast() -> Trial {
    let map = TensorMap::dense(&[64, 32], Storage::F32, &[8, 32], Swizzle::None);
    let stage = Stage::kernel("a tile for each cluster", "hopper/multicast", "multicast")
        .consts(&[("ROWS", 8u32), ("COLUMNS", 32)])
        .args([mapped("x", "x", Access::Read, map), ("out", Access::Write).into()])
        .threads([64, 1, 1])
        .grid([8, 1, 1])
        .cuda(launch(4, 4096));
    let trial = Trial::new("copy/fwd/n8192/f32/scalar", stage);
    let inputs = trial.inputs();
    let want: Vec<f64> = (0..8192).map(|i| inputs.at(0, i / 4096 * 1024 + i % 1024)).collect();
    trial.exactly(want)
}

/// A tensor whose extents are no multiples of a box's, negated through shared memory; what lies behind it stays poisoned.
fn negate(dims: &[u64], tile: &[u32]) -> Trial {
    let map = TensorMap::dense(dims, Storage::F32, tile, Swizzle::None);
    let boxes: Vec<u32> = dims.iter().zip(tile).map(|(n, t)| (*n as u32).div_ceil(*t)).collect();
    let fastest = |list: &[u32], axis: usize| list.iter().rev().nth(axis).copied().unwrap_or(1);
    let names = [("T0", "C0"), ("T1", "C1"), ("T2", "C2"), ("T3", "C3"), ("T4", "C4")];
    let axes = names.iter().enumerate();
    let mut consts: Vec<(&'static str, u32)> =
        axes.flat_map(|(axis, (t, c))| [(*t, fastest(tile, axis)), (*c, fastest(&boxes, axis))]).collect();
    consts.push(("RANK", dims.len() as u32));
    let stage = Stage::kernel(format!("{dims:?} negated"), "hopper/negate", "negate")
        .consts(&consts)
        .cuda(launch(1, map.box_bytes(Storage::F32) as u32))
        .args([mapped("x", "x", Access::Read, map.clone()), mapped("out", "out", Access::Write, map)])
        .threads([64, 1, 1])
        .grid([boxes.iter().product(), 1, 1]);
    let trial = Trial::new("copy/fwd/n1024/f32/scalar", stage);
    let inputs = trial.inputs();
    let inside = dims.iter().product();
    let want: Vec<f64> = (0..1024).map(|i| if i < inside { -inputs.at(0, i) } else { f64::NAN }).collect();
    trial.exactly(want)
}

/// Where the left operand of a product is, as the kernel's text numbers it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    AlongK,
    AcrossK,
    InRegisters,
}

/// 64 x 128 by 128 x n, from the first halves of the case's operands; the sums fill the memory of its output exactly.
fn product(dtype: DType, n: u64, left: Left, b_across_k: bool) -> Trial {
    const M: u64 = 64;
    const K: u64 = 128;
    let element = storage(dtype);
    let tiles = |dims: [u64; 2]| TensorMap::dense(&dims, element, &[dims[0] as u32, 64], Swizzle::Bytes128);
    let a = if left == Left::AcrossK { tiles([K, M]) } else { tiles([M, K]) };
    let b = if b_across_k { tiles([K, n]) } else { tiles([n, K]) };
    let columns = if b_across_k { n.next_multiple_of(64) } else { n };
    let consts: [(&'static str, Value); 4] = [
        ("N", (n as u32).into()),
        ("K", (K as u32).into()),
        ("A", (left as u32).into()),
        ("B_ACROSS_K", b_across_k.into()),
    ];
    let label = format!("n {n}, A {left:?}, B {}", if b_across_k { "AcrossK" } else { "AlongK" });
    let stage = Stage::kernel(label, "hopper/product", "product")
        .consts(&consts)
        .args([
            mapped("a", "a", Access::Read, a),
            mapped("b", "b", Access::Read, b),
            ("rows", "a", Access::Read).into(),
            ("c", Access::Write).into(),
        ])
        .threads([128, 1, 1])
        .cuda(launch(1, ((M + columns) * K * element.bytes()) as u32));
    let trial = Trial::new(&format!("matmul/fwd/m128,n{n},k128/{}/naive", dtype.name()), stage);
    let inputs = trial.inputs();
    let a = |m: u64, k: u64| inputs.at(0, if left == Left::AcrossK { k * M + m } else { m * K + k });
    let b = |k: u64, j: u64| inputs.at(1, if b_across_k { k * n + j } else { j * K + k });
    // Products are exact in f32; the matrix units drop bits below the largest of those that they add at a time.
    let one = |i: u64| ((0..K).map(|k| a(i / n, k) * b(k, i % n)).sum(), 1e-3);
    let want = (0..M * n).map(one).collect();
    Trial { want, element: Storage::F32, ..trial }
}

const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

fn tiles() -> Vec<Trial> {
    let of = |dtype| SWIZZLES.map(|swizzle| tile(dtype, swizzle));
    [DType::F32, DType::F16, DType::BF16].into_iter().flat_map(of).collect()
}

fn negated() -> Vec<Trial> {
    vec![
        negate(&[19, 20], &[8, 8]),
        negate(&[5, 7, 12], &[2, 4, 8]),
        negate(&[3, 2, 5, 12], &[2, 1, 4, 8]),
        negate(&[2, 3, 2, 5, 12], &[1, 2, 2, 2, 8]),
    ]
}

fn products() -> Vec<Trial> {
    let of_half = [64, 80, 96, 128, 192, 256].map(|n| (DType::F16, n));
    let mut trials = Vec::new();
    for (dtype, n) in of_half.into_iter().chain([(DType::BF16, 96), (DType::BF16, 256)]) {
        for left in [Left::AlongK, Left::AcrossK, Left::InRegisters] {
            trials.extend([false, true].map(|b_across_k| product(dtype, n, left, b_across_k)));
        }
    }
    trials
}

#[test]
fn the_kernels_of_these_tests_compile() {
    let plain = [vec![cluster(), multicast()], tiles(), negated()].concat();
    let only = products().into_iter().map(|trial| (trial, Arch::new(9, 0)));
    let later = |trial: Trial| [Arch::new(9, 0), Arch::new(10, 0)].map(|arch| (trial.clone(), arch));
    let all: Vec<(Trial, Arch)> = plain.into_iter().flat_map(later).chain(only).collect();
    all.into_par_iter().for_each(|(trial, arch)| {
        let (case, stage) = (&trial.case, &trial.stage);
        let buffers = case.problem.buffers();
        for arg in &stage.args {
            let spec = buffers.iter().find(|spec| spec.name == arg.buffer).expect("a buffer of the case");
            let checked =
                arg.map.as_ref().map(|map| map.check(storage(case.problem.dtype), spec.bytes(case.problem.dtype)));
            assert_eq!(checked.unwrap_or(Ok(())), Ok(()), "{}", stage.label);
        }
        let (found, _) = assemble_all(&texts(), &trial.program(), case.problem.dtype).expect("texts");
        match compile_source(&found[0], arch) {
            // The assembler's warnings are of what it could not do as the text asks.
            Ok((_, said)) => assert!(!said.contains("(C75"), "{} for {arch}: {said}", stage.label),
            Err(error) => panic!("{} for {arch}: {error}", stage.label),
        }
    });
}

/// A trial that goes wrong may leave the device unusable for the tests behind it; that is no reason for them to pass.
static SEEN: AtomicBool = AtomicBool::new(false);

/// The device, where there is one that can do all this.
fn device() -> Option<Cuda> {
    match open(CudaOptions { cache: None, texts: texts(), ..CudaOptions::default() }) {
        Ok(cuda) if cuda.device().caps.cuda.is_some_and(|cuda| cuda.wgmma && cuda.tensor_maps) => {
            SEEN.store(true, Ordering::Relaxed);
            Some(cuda)
        }
        Ok(cuda) => {
            println!("{} has none of this", cuda.device().name);
            None
        }
        Err(error) => {
            assert!(!SEEN.load(Ordering::Relaxed), "the device was there before: {error}");
            assert!(error.to_string().len() > 40, "not a sentence: {error}");
            None
        }
    }
}

/// The output after one execution.
fn output(trial: &Trial, prepared: &mut dyn Prepared) -> Vec<f64> {
    block_on(prepared.measure(Batch::new(1))).unwrap_or_else(|error| panic!("{}: {error}", trial.stage.label));
    let buffers = trial.case.problem.buffers();
    let index = buffers.iter().position(|spec| matches!(spec.role, Role::Output { .. })).expect("has an output");
    let bytes = buffers[index].bytes(trial.case.problem.dtype).0;
    let bytes = block_on(prepared.read_back(index, 0..bytes)).expect("the buffer is there");
    bytes.chunks(trial.element.bytes() as usize).map(|one| load(trial.element, one)).collect()
}

/// Run a trial on two sets of buffers, put on the stream and as a graph, and look at every result.
fn right(cuda: &mut Cuda, trial: &Trial) {
    let label = format!("{} in {}", trial.stage.label, trial.case.problem.dtype.name());
    let prepared = cuda.prepare_with(&trial.case, &trial.program(), &trial.inputs(), 2);
    let mut prepared = prepared.unwrap_or_else(|error| panic!("{label}: {error}"));
    let launch = &prepared.launches()[0];
    assert!(launch.occupancy.is_some_and(|share| share > 0.0 && share <= 1.0), "{label}: {launch:?}");
    assert_eq!(launch.spilled.map(|bytes| bytes.0), Some(0), "{label}: {launch:?}");
    for launching in [Launching::Stream, Launching::Graph] {
        block_on(prepared.launch_as(launching)).expect("can be captured");
        block_on(prepared.poison(parallax_ir::device::POISON)).expect("poisons");
        for set in 0..2 {
            let got = output(trial, &mut *prepared);
            assert!(got.len() >= trial.want.len(), "{label}");
            let off = |(got, (want, far)): (&f64, &(f64, f64))| {
                let right = (got.is_nan() && want.is_nan()) || (got - want).abs() <= *far;
                !right
            };
            let wrong: Vec<usize> =
                got.iter().zip(&trial.want).enumerate().filter(|(_, pair)| off(*pair)).map(|(i, _)| i).collect();
            if let Some(first) = wrong.first() {
                let (count, all, want) = (wrong.len(), trial.want.len(), trial.want[*first].0);
                let name = launching.name();
                panic!("{label}, {name}, set {set}: {count} of {all} wrong, at {first} {} for {want}", got[*first]);
            }
        }
    }
    println!("{label}: right");
}

fn all_right(trials: &[Trial]) {
    let Some(mut cuda) = device() else { return };
    trials.iter().for_each(|trial| right(&mut cuda, trial));
}

#[test]
fn blocks_of_a_cluster_read_each_others_shared_memory() {
    all_right(&[cluster()]);
}

#[test]
fn boxes_are_swizzled_as_they_should_and_zero_outside_of_the_tensor() {
    all_right(&tiles());
}

#[test]
fn a_box_is_loaded_into_every_block_of_a_cluster() {
    all_right(&[multicast()]);
}

#[test]
fn boxes_of_two_to_five_axes_are_loaded_and_stored_within_the_tensor() {
    all_right(&negated());
}

#[test]
fn products_of_four_warps_are_right_however_their_operands_lie() {
    all_right(&products());
}

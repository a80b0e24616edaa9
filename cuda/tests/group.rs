//! Collectives on two real GPUs, through the whole contract. Where there are fewer, or no NCCL, the reason must be a sentence.

use std::sync::{Mutex, MutexGuard, PoisonError};

use parallax_cuda::{CudaOptions, Group, open_group};
use parallax_ir::device::{BackendError, Batch, POISON, Prepared, Profiler};
use parallax_ir::{Case, Inputs, load};
use parallax_schema::case::DType;
use parallax_schema::device::{Span, Track};
use parallax_workloads::parse_case;
use pollster::block_on;

/// Collectives of two ranks, in every element type and at odd lengths.
const CASES: [&str; 8] = [
    "all_reduce/fwd/n1009/f32/nccl",
    "all_reduce/fwd/n65537/bf16/nccl",
    "all_gather/fwd/n2018/f16/nccl",
    "reduce_scatter/fwd/n2018/f32/nccl",
    "broadcast/fwd/n1/f32/nccl",
    "broadcast/fwd/n1009/bf16/nccl",
    "all_to_all/fwd/n2018/f32/nccl",
    "send_recv/fwd/n1009/f16/nccl",
];

/// Two GPUs as one device, unless there are fewer and opening said why. One test at a time has them: exchanges of two groups on the
/// same GPUs may wait for each other.
fn group() -> Option<(Group, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    match open_group(CudaOptions { cache: None, ..CudaOptions::default() }, 2) {
        Ok(group) => Some((group, alone)),
        Err(error) => {
            assert!(error.to_string().len() > 40, "not a sentence: {error}");
            None
        }
    }
}

/// The case on the GPUs with its inputs, unless NCCL is missing.
fn prepare(group: &mut Group, text: &str, sets: u32) -> Option<(Case, Inputs, Box<dyn Prepared>)> {
    let case = parse_case(text).expect("a valid case");
    let inputs = case.problem.inputs(7);
    match block_on(group.prepare(&case, &inputs, sets)) {
        Ok(prepared) => Some((case, inputs, prepared)),
        Err(BackendError::Refused(why)) => {
            assert!(why.contains("libnccl"), "{why}");
            None
        }
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Largest difference of a result from the reference, over its tolerance.
fn error(case: &Case, inputs: &Inputs, prepared: &mut dyn Prepared) -> f64 {
    let outputs = case.problem.outputs();
    (0..).zip(outputs).map(|(output, at)| error_of(case, inputs, prepared, (output, at))).fold(0.0, f64::max)
}

/// The same of one output, by its number and its position among the buffers.
fn error_of(case: &Case, inputs: &Inputs, prepared: &mut dyn Prepared, (output, at): (usize, usize)) -> f64 {
    let problem = &case.problem;
    let spec = &problem.buffers()[at];
    let storage = spec.elem.storage(problem.dtype);
    let bytes = block_on(prepared.read_back(at, 0..spec.bytes(problem.dtype).0)).expect("the buffer is there");
    let row_len = spec.role.row_len().expect("an output");
    let (rows, tolerance) = ((problem.form().reference.rows)(problem, inputs), inputs.tolerance(problem, output));
    let mut want = vec![0.0; spec.len as usize];
    (0..).zip(want.chunks_mut(row_len as usize)).for_each(|(row, slots)| rows(output, row, slots));
    let found = bytes.chunks(storage.bytes() as usize).map(|bytes| load(storage, bytes));
    let of_one = |(found, want): (f64, &f64)| {
        let error = (found - want).abs() / (tolerance.abs + tolerance.rel * want.abs());
        if error.is_nan() { f64::INFINITY } else { error }
    };
    found.zip(&want).map(of_one).fold(0.0, f64::max)
}

#[test]
fn every_rank_gets_the_right_result_from_every_set() {
    let Some((mut group, _alone)) = group() else { return };
    assert_eq!((group.device().ranks, group.device().caps.ranks), (2, 2));
    for text in CASES {
        let Some((case, inputs, mut prepared)) = prepare(&mut group, text, 2) else { return };
        for _ in 0..3 {
            block_on(prepared.poison(POISON)).expect("poisons");
            assert_eq!(error(&case, &inputs, &mut *prepared), f64::INFINITY, "{text}: nothing has run");
            let sample = block_on(prepared.measure(Batch::new(1))).expect("runs");
            assert!(sample.time.0 > 0.0 && sample.time.0 <= sample.host.0 * 1.1, "{text}: {sample:?}");
            let worst = error(&case, &inputs, &mut *prepared);
            assert!(worst <= 1.0, "{text}: {worst}");
        }
    }
}

/// Steps of two ranks, with one exchange and with an exchange for each layer.
const STEPS: [&str; 3] = [
    "train_step/fwd+bwd/n1100,e2,v13,d20,f36,gpus2/f32/separate",
    "train_step/fwd+bwd/n1100,e2,v13,d20,f36,gpus2/f32/fused",
    "train_step/fwd+bwd/n4096,e8,v1000,d64,f256,gpus2/f32/overlapped",
];

#[test]
fn a_step_of_two_ranks_is_that_of_one_on_all_samples() {
    let Some((mut group, _alone)) = group() else { return };
    for text in STEPS {
        let Some((case, inputs, mut prepared)) = prepare(&mut group, text, 2) else { return };
        for _ in 0..3 {
            block_on(prepared.poison(POISON)).expect("poisons");
            assert_eq!(error(&case, &inputs, &mut *prepared), f64::INFINITY, "{text}: nothing has run");
            let sample = block_on(prepared.measure(Batch::new(1))).expect("runs");
            assert!(sample.time.0 > 0.0 && sample.time.0 <= sample.host.0 * 1.1, "{text}: {sample:?}");
            let worst = error(&case, &inputs, &mut *prepared);
            assert!(worst <= 1.0, "{text}: {worst}");
        }
        block_on(prepared.measure(Batch { lead: 3, repeats: 20 })).expect("runs");
        let stages = case.program(&group.device().caps).expect("kernels").stages.len();
        let trace = block_on(prepared.trace(false)).expect("runs");
        for rank in [0, 1] {
            let spans = trace.spans.iter().filter(|span| span.track == Track::Gpu && span.device == rank);
            assert_eq!(spans.count(), stages, "{text}: rank {rank}");
        }
    }
}

#[test]
fn a_trace_has_a_lane_for_each_rank() {
    let Some((mut group, _alone)) = group() else { return };
    let Some((_, _, mut prepared)) = prepare(&mut group, CASES[0], 1) else { return };
    let trace = block_on(prepared.trace(true)).expect("runs");
    let work: Vec<&Span> = trace.spans.iter().filter(|span| span.track == Track::Gpu).collect();
    assert_eq!(work.iter().map(|span| span.device).collect::<Vec<_>>(), [0, 1]);
    assert!(work.iter().all(|span| span.name == "all_reduce" && span.start < span.end), "{work:?}");
    assert_eq!(block_on(prepared.read_back(0, 0..8)).expect("an input").len(), 8);
    assert!(block_on(prepared.read_back(0, 0..1 << 30)).is_err(), "beyond the end");
}

#[test]
fn a_group_needs_its_gpus_and_runs_probes_on_the_first() {
    let many = open_group(CudaOptions { cache: None, ..CudaOptions::default() }, 1_000_000);
    assert!(many.is_err_and(|error| error.to_string().len() > 40));
    let Some((mut group, _alone)) = group() else { return };
    let case = parse_case("all_reduce/fwd/n6,gpus1000/f32/nccl").expect("a valid case");
    let refused = block_on(group.prepare(&case, &case.problem.inputs(1), 1)).map(|_| ());
    assert!(matches!(&refused, Err(BackendError::Unsupported(why)) if why.contains("1000 GPUs")), "{refused:?}");
    let copy = parse_case("copy/fwd/n1009/f32/scalar").expect("a valid case");
    let mut prepared = block_on(group.prepare(&copy, &copy.problem.inputs(1), 1)).expect("fits on the first GPU");
    block_on(prepared.measure(Batch::new(1))).expect("runs");
    assert_eq!(copy.problem.dtype, DType::F32);
}

//! What a form may ask of the device: a set-up on every set of buffers, and inputs that executions change and get back.

use parallax_engine::measure::check::check_once;
use parallax_ir::device::{Batch, POISON, Profiler};
use parallax_ir::{
    Axis, BufferSpec, Case, Elem, OfNan, OpSpec, Problem, Program, Reference, Stage, Tolerance, Variant, Workload,
};
use parallax_schema::case::{Cost, DType, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::record::CheckResult;
use parallax_shaders::{WgpuOptions, open};
use pollster::block_on;

/// The set-up keeps `g` in `kept`; an execution puts what `x` was into `out`, and then `kept` into `x`. All are copies, so
/// an execution that finds what the one before it left gives `g` for `out`.
fn form(setup: fn(&Problem, &Caps) -> Program) -> OpSpec {
    let program = |_: &Problem, _: &Caps| Program {
        stages: vec![Stage::copy("what it was", "x", "out"), Stage::copy("what was kept", "kept", "x")],
    };
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            let dims = [p["n"]];
            vec![
                BufferSpec::input("g", Elem::Real, &dims, |_, draw| draw.normal()),
                BufferSpec::in_out("x", Elem::Real, &dims, |_, draw| draw.normal()),
                BufferSpec::setup("kept", Elem::Real, &dims),
                BufferSpec::output("out", Elem::Real, &dims),
            ]
        },
        |_| Cost::default(),
        |_, _| Tolerance { abs: 0.0, rel: 1e-12, reason: "copies are exact" },
        Reference::new(
            |p, _| p["n"],
            |_, inputs| {
                Box::new(move |output, _, row| {
                    // Of what is checked, only the last is what `x` was.
                    let from = if output == 2 { 1 } else { 0 };
                    row.iter_mut().enumerate().for_each(|(i, slot)| *slot = inputs.at(from, i as u64));
                })
            },
        ),
        OfNan::Unsaid("for tests"),
    )
    .awkward(&["n1009"])
    .setup(setup)
    .variants(vec![Variant::kernel("copies", "for tests", program).only_in(&[Dialect::Wgsl])])
    .only_in(&[Dialect::Wgsl], "for tests")
}

fn keep(_: &Problem, _: &Caps) -> Program {
    Stage::copy("keep", "g", "kept").into()
}

/// A set-up that forgets its work: it writes what it must not, and leaves what it must write.
fn nothing(_: &Problem, _: &Caps) -> Program {
    Stage::copy("forget", "g", "out").into()
}

fn results(form: OpSpec, dtype: DType, sets: u32) -> Vec<CheckResult> {
    let workload = Workload {
        name: "synthetic",
        probes: &[],
        about: "for tests",
        axes: const { &[Axis::extent("n", "elements")] },
        dtypes: &[DType::F32, DType::F16],
        validate: |_| Ok(()),
        forms: vec![form],
    };
    let problem = Problem::new(Box::leak(Box::new(workload)), Direction::Fwd, "n1009", dtype).expect("valid");
    let case = Case { problem, variant: "copies" };
    let inputs = case.problem.inputs(3);
    block_on(async {
        let mut wgpu = open(WgpuOptions::default()).await.expect("an adapter (llvmpipe will do)");
        let mut prepared = wgpu.prepare(&case, &inputs, sets).await.expect("a small case");
        assert_eq!(prepared.launches().len(), 2, "the set-up is no launch of an execution");
        let mut results = Vec::new();
        for _ in 0..2 {
            prepared.poison(POISON).await.expect("a living device");
            prepared.measure(Batch::new(1)).await.expect("runs");
            results.push(check_once(&wgpu, &mut *prepared, &case.problem, &inputs, 1 << 30).await.expect("read back"));
            // What these leave behind must be gone after the next poison, and before the next batch.
            prepared.measure(Batch { lead: 2, repeats: 5 }).await.expect("runs");
            prepared.trace(false).await.expect("runs");
            prepared.measure(Batch::new(1)).await.expect("runs");
            results.push(check_once(&wgpu, &mut *prepared, &case.problem, &inputs, 1 << 30).await.expect("read back"));
        }
        results
    })
}

#[test]
fn every_set_is_set_up_and_what_executions_change_is_put_back() {
    for dtype in [DType::F32, DType::F16] {
        for sets in [1, 3] {
            for result in results(form(keep), dtype, sets) {
                assert!(result.passed && result.compared == 3 * 1009, "{dtype:?}, {sets} sets: {}", result.sentence());
            }
        }
    }
}

#[test]
fn a_set_up_that_leaves_its_buffer_unwritten_is_wrong_and_named() {
    for result in results(form(nothing), DType::F32, 1) {
        let mismatch = result.mismatch.expect("wrong");
        assert!(!result.passed && matches!(mismatch.output.as_str(), "kept" | "x"), "{mismatch:?}");
    }
}

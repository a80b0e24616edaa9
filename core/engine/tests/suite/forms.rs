//! Requests of a specification to the engine: a checked set-up, inputs that executions change, integers that no kernel may
//! leave unwritten; and invariants of all registered specifications.

use parallax_engine::measure::runner;
use parallax_engine::measure::runner::Flow;
use parallax_engine::plan::{Plan, Planned};
use parallax_ir::{
    Axis, BufferSpec, Case, Elem, Inputs, OfNan, OpSpec, Problem, Reference, Role, Stage, StressInput, Tolerance,
    Workload,
};
use parallax_schema::case::{CPU_VARIANT, Cost, DType, Direction, Preset, Rate};
use parallax_schema::record::{Event, Items, LOADING, Outcome, Phase, Record, TRANSFER};
use parallax_schema::session::{Mode, ResumeState, RunEnd};
use parallax_schema::spec::Spec;
use parallax_schema::testing::caps;
use parallax_testing::mock::{Fault, Mock, World};
use parallax_workloads::{all, parse_case};

/// `x += g`, with twice `g` made by the set-up, `out = 2g + x`, and the number of each element, counted down from the top.
fn form() -> OpSpec {
    OpSpec::new(
        Direction::FwdBwd,
        Rate::Bytes,
        |p| {
            let dims = [p["n"]];
            vec![
                BufferSpec::input("g", Elem::F32, &dims, |_, draw| draw.normal()),
                BufferSpec::in_out("x", Elem::F32, &dims, |_, draw| draw.normal()),
                BufferSpec::setup("twice", Elem::F32, &dims),
                BufferSpec::output("out", Elem::F32, &dims),
                BufferSpec::output("number", Elem::U32, &dims),
            ]
        },
        |p| Cost { read: parallax_schema::units::Bytes(p["n"] * 12), ..Cost::default() },
        |_, output| Tolerance { abs: if output == 3 { 0.5 } else { 1e-5 }, rel: 0.0, reason: "a sum in f32" },
        Reference::new(
            |p, _| p["n"],
            |_, inputs| {
                Box::new(move |output, _, row| {
                    for (i, slot) in row.iter_mut().enumerate() {
                        let (g, x) = (inputs.at(0, i as u64), inputs.at(1, i as u64));
                        *slot = match output {
                            0 => x + g,
                            1 => 2.0 * g,
                            2 => 2.0 * g + x,
                            _ => f64::from(u32::MAX - i as u32),
                        };
                    }
                })
            },
        ),
        OfNan::Unsaid("for tests"),
    )
    .awkward(&["n7"])
}

fn workload(form: OpSpec) -> &'static Workload {
    Box::leak(Box::new(Workload {
        name: "synthetic",
        probes: &[],
        about: "for tests",
        axes: const { &[Axis::extent("n", "elements").items()] },
        dtypes: &[DType::F32],
        validate: |_| Ok(()),
        forms: vec![form],
    }))
}

fn record(fault: Fault, mode: Mode) -> Record {
    let problem = Problem::new(workload(form()), Direction::FwdBwd, "n7", DType::F32).expect("valid");
    assert_eq!(problem.to_string(), "synthetic/fwd+bwd/n7/f32");
    let case = Case { problem, variant: CPU_VARIANT };
    let plan = Plan { cases: vec![Planned { case, actual: None, stress: None }], skips: Vec::new() };
    let spec = Spec { budget: 2.0, ceilings: false, ..Spec::default() };
    let mut mock = Mock::in_world(World { fault, ..World::default() });
    let mut records = Vec::new();
    let ended = pollster::block_on(runner::run(&plan, &spec, mode, &mut mock, &ResumeState::default(), |event| {
        if let Event::Record { record } = event {
            records.push(*record);
        }
        Flow::Continue
    }));
    assert_eq!((ended, records.len()), (RunEnd::Complete, 1));
    records.remove(0)
}

#[test]
fn set_up_changed_inputs_and_integers_at_their_largest_are_right() {
    for mode in [Mode::Verify, Mode::Measure] {
        let record = record(Fault::None, mode);
        let Outcome::Pass(measured) = &record.outcome else { panic!("{record:?}") };
        assert_eq!((measured.check.compared, measured.check.elements), (28, 28), "four buffers of seven are checked");
        assert_eq!(measured.timing.is_some(), mode == Mode::Measure);
    }
}

#[test]
fn a_batch_is_made_ready_and_moved_once_for_each_traced_execution() {
    let record = record(Fault::None, Mode::Measure);
    assert_eq!(record.items, Some(Items { name: "elements".to_owned(), count: 7 }));
    let measured = record.measured().expect("passed");
    let named = |name: &str| measured.phases.iter().filter(|phase| phase.name == name).collect::<Vec<_>>();
    let executions = Spec::default().schedule.active as usize;
    assert_eq!((named(LOADING).len(), named(TRANSFER).len()), (executions, executions));
    // The one input goes up, two outputs come down: buffers changed in place stay. See the mock's link.
    for phase in named(TRANSFER) {
        let took = (phase.end - phase.start).0;
        assert!((took - (2000.0 + 3.0 * 28.0 / 10.0)).abs() < 1e-6, "{took} ns");
    }
    // A start is a difference of two times.
    let ordered = |pair: &[Phase]| pair[0].end.0 <= pair[1].start.0 + 1e-3;
    assert!(measured.phases.windows(2).all(ordered), "{:?}", measured.phases);
}

#[test]
fn what_goes_wrong_names_the_buffer() {
    for (fault, buffer) in [
        (Fault::WrongSetup, "twice"),
        // It is right after the first execution, and no longer after the batches.
        (Fault::NotRestored, "x"),
        (Fault::UnwrittenElement, "out"),
    ] {
        let record = record(fault, Mode::Measure);
        let Outcome::Fail { check } = &record.outcome else { panic!("{fault:?}: {record:?}") };
        let mismatch = check.mismatch.as_ref().expect("named");
        assert_eq!((mismatch.output.as_str(), mismatch.index), (buffer, 0), "{fault:?}");
    }
}

#[test]
fn an_integer_that_nobody_writes_is_seen_although_the_poison_is_its_value() {
    let mut only = form();
    only.buffers = |p| vec![BufferSpec::output("number", Elem::U32, &[p["n"]])];
    only.tolerance = |_, _| Tolerance { abs: 0.5, rel: 0.0, reason: "exact" };
    only.reference.rows = |_, _| Box::new(|_, _, row| row.fill(f64::from(u32::MAX)));
    let problem = Problem::new(workload(only), Direction::FwdBwd, "n7", DType::F32).expect("valid");
    let case = Case { problem, variant: CPU_VARIANT };
    for (fault, right) in [(Fault::None, true), (Fault::UnwrittenElement, false)] {
        let mut mock = Mock::in_world(World { fault, ..World::default() });
        let inputs = case.problem.inputs(1);
        let result = pollster::block_on(async {
            use parallax_ir::device::{Batch, POISON, Profiler};
            let mut prepared = mock.prepare(&case, &inputs, 1).await?;
            prepared.poison(POISON).await?;
            prepared.measure(Batch::new(1)).await?;
            parallax_engine::measure::check::check_once(&mock, &mut *prepared, &case.problem, &inputs, 1 << 20).await
        });
        let result = result.expect("the mock has no errors");
        assert_eq!((result.passed, result.compared), (right, 7), "{fault:?}: {}", result.sentence());
    }
}

#[test]
fn seeded_and_hard_inputs_keep_what_the_forms_ask_of_them() {
    let mut conditions = 0;
    for (workload, form) in all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        conditions += form.preconditions.len();
        let problem = |shape: &str| Problem::new(workload, form.direction, shape, workload.dtypes[0]).expect("awkward");
        for condition in &form.preconditions {
            let buffer = condition.buffer();
            let has = |shape: &&str| problem(shape).buffers().iter().any(|b| b.name == buffer);
            assert!(form.awkward.iter().any(has), "{}: no shape has `{buffer}`", workload.name);
        }
        for shape in form.awkward {
            let problem = problem(shape);
            let seeded = (0..3).map(|seed| ("seeded", problem.inputs(seed)));
            let stress =
                form.stress.iter().filter(|h| (h.applies)(&problem)).map(|h| (h.name, problem.stress_inputs(1, h)));
            for (name, inputs) in seeded.chain(stress) {
                assert_eq!(problem.accepts(&inputs), Ok(()), "{problem} {name}");
            }
        }
    }
    assert!(conditions > 0);
}

#[test]
fn every_form_has_hard_sets_with_names_and_each_applies_somewhere() {
    for (workload, form) in all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        let mut names: Vec<&str> = form.stress.iter().map(|h| h.name).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == form.stress.len() && names.contains(&"zeros"), "{}: {names:?}", workload.name);
        for stress in &form.stress {
            let of = |dtype| move |shape: &&str| Problem::new(workload, form.direction, shape, dtype).expect("awkward");
            let applies = |dtype: &DType| form.awkward.iter().map(|s| of(*dtype)(s)).any(|p| (stress.applies)(&p));
            assert!(
                workload.dtypes.iter().any(applies) && !stress.about.is_empty(),
                "{} {}",
                workload.name,
                stress.name
            );
        }
    }
}

/// Whether an input has NaN.
fn has_nan(problem: &Problem, inputs: &Inputs) -> bool {
    let buffers = problem.buffers();
    let given = buffers.iter().enumerate().filter(|(_, spec)| spec.role.fill().is_some());
    given.flat_map(|(at, spec)| (0..spec.len).map(move |i| (at, i))).any(|(at, i)| inputs.at(at, i).is_nan())
}

/// Of results, how many are NaN, and how many are none.
fn told_apart(problem: &Problem, inputs: &Inputs) -> [usize; 2] {
    let (specs, rows) = (problem.buffers(), (problem.form().reference.rows)(problem, inputs));
    let mut count = [0; 2];
    for (output, buffer) in problem.outputs().into_iter().enumerate() {
        let row_len = specs[buffer].role.row_len().expect("an output");
        let mut row = vec![0.0; row_len as usize];
        for at in 0..specs[buffer].len / row_len {
            rows(output, at, &mut row);
            let nan = row.iter().filter(|x| x.is_nan()).count();
            count = [count[0] + nan, count[1] + row.len() - nan];
        }
    }
    count
}

/// Elements of a buffer up to which a reference takes no time: most forms have awkward shapes that small.
const SMALL: u64 = 1 << 12;

#[test]
fn a_form_that_keeps_nan_has_hard_inputs_with_nan_which_its_reference_keeps() {
    let mut kept = 0;
    for (workload, form) in all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        let name = format!("{} {:?}", workload.name, form.direction);
        let of = |shape: &&str| Problem::new(workload, form.direction, shape, workload.dtypes[0]).expect("awkward");
        let all: Vec<Problem> = form.awkward.iter().map(of).collect();
        // A reference does not use scratch buffers.
        let is_small = |problem: &&Problem| {
            problem.buffers().iter().all(|spec| spec.len <= SMALL || matches!(spec.role, Role::Scratch))
        };
        let (small, every) = (all.iter().filter(is_small).collect::<Vec<_>>(), all.iter().collect());
        let with_nan = |problems: &[&Problem]| -> Vec<&'static StressInput> {
            let has = |stress: &'static StressInput, p: &Problem| {
                (stress.applies)(p) && has_nan(p, &p.stress_inputs(1, stress))
            };
            form.stress.iter().filter(|stress| problems.iter().any(|p| has(stress, p))).collect()
        };
        let sets = with_nan(&small);
        // Some have NaN only in shapes of several chunks.
        let larger = sets.is_empty() && form.nan == OfNan::Kept;
        let problems: Vec<&Problem> = if larger { every } else { small };
        let sets = with_nan(&problems);
        match form.nan {
            OfNan::Unsaid(reason) => assert!(sets.is_empty() && !reason.is_empty(), "{name}: {sets:?}"),
            OfNan::Kept => {
                kept += 1;
                let mut both = [0; 2];
                for stress in &sets {
                    for problem in problems.iter().filter(|problem| (stress.applies)(problem)) {
                        let count = told_apart(problem, &problem.stress_inputs(1, stress));
                        both = [both[0] + count[0], both[1] + count[1]];
                    }
                }
                // A loss is one number.
                let single =
                    problems.iter().all(|p| p.outputs().iter().map(|at| p.buffers()[*at].len).sum::<u64>() == 1);
                assert!(both[0] > 0 && (both[1] > 0 || single), "{name}: {sets:?} {both:?}");
            }
        }
    }
    assert!(kept > 20, "{kept}");
}

#[test]
fn arrays_that_break_a_condition_are_named_with_position_and_value() {
    let case = parse_case("hash_embedding/fwd/r4,g3,d2,sorted/f32/basic").expect("valid");
    let with = |groups: [u32; 4]| {
        let mut inputs = case.problem.inputs(0);
        inputs.replace(1, groups.iter().flat_map(|g| g.to_le_bytes()).collect()).expect("four of them");
        case.problem.accepts(&inputs).map_err(|broken| broken.to_string())
    };
    assert_eq!(with([0, 0, 2, 2]), Ok(()));
    assert_eq!(with([0, 1, 3, 3]), Err("input `group`[2] is 3, and must be below 3".to_owned()));
    assert_eq!(with([0, 2, 1, 2]), Err("input `group`[2] is 1, and must be no less than 2 before it".to_owned()));

    let shared = |words: &str| {
        let case = parse_case(&format!("attention_decode/fwd/b3,h1,t5,d1{words}/f32/naive")).expect("valid");
        let mut inputs = case.problem.inputs(0);
        inputs.replace(3, [2u32, 1, 2].iter().flat_map(|page| page.to_le_bytes()).collect()).expect("three of them");
        case.problem.accepts(&inputs).map_err(|broken| broken.to_string())
    };
    assert_eq!(shared(""), Ok(()), "pages that are only read may be those of several sequences");
    assert_eq!(shared(",append"), Err("input `table`[2] is 2, and must be another than element 0".to_owned()));
}

/// A phone's GPU: operations per second, bytes per second, and the largest binding.
const PHONE: (f64, f64, u64) = (100e9, 10e9, 128 << 20);

#[test]
fn a_headline_takes_at_most_50_ms_on_a_phone() {
    let mut headlines = 0;
    for (workload, form) in all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        let Some(shape) = form.headline else {
            assert!(!workload.probes.is_empty(), "{}: only probes go without a headline", workload.name);
            continue;
        };
        headlines += 1;
        assert_eq!(form.preset(Preset::Quick), [shape]);
        for dtype in workload.dtypes {
            let problem = Problem::new(workload, form.direction, shape, *dtype).expect("a headline");
            assert_eq!(problem.shape.to_string(), shape);
            for buffer in problem.buffers() {
                assert!(buffer.bytes(*dtype).0 <= PHONE.2, "{problem}: {} takes {}", buffer.name, buffer.bytes(*dtype));
            }
            let time = |flops: u64, bytes: u64| (flops as f64 / PHONE.0).max(bytes as f64 / PHONE.1);
            let whole = problem.cost();
            assert!(time(whole.flops.0, whole.moved().0) <= 0.05, "{problem}: {whole:?}");
            // Each stage of the plainest variant, with every byte of the buffers that it touches.
            let case = Case { problem: problem.clone(), variant: form.variants[0].name };
            let stages = case.program(&caps()).expect("the first variant has kernels").stages;
            let of_stage = |stage: &Stage| {
                let touched = problem.bytes(|b| stage.args.iter().any(|arg| arg.buffer == b.name));
                time(stage.cost.flops.0, touched.0)
            };
            let total: f64 = stages.iter().map(of_stage).sum();
            assert!(total <= 0.05, "{case}: {total} s");
        }
    }
    assert!(headlines >= 5);
}

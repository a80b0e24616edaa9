//! A job on the processor, before and after its bytes, and bytes that are refused.

use std::collections::HashMap;

use parallax_cpu::{Cpu, HostEnvironment};
use parallax_learn::{
    BytesError, Input, Job, LearnError, Machine, PASSES, Passes, REQUESTS, answers, longest_passes, passes,
};
use parallax_model::classifier::Classifier;
use parallax_model::examples::Rows;
use parallax_model::layers::{Arrays, Layer, Source};
use parallax_model::network::{LOGITS, Network, PROBABILITIES};
use parallax_schema::case::DType;
use pollster::block_on;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// More than one batch, and no multiple of one.
const ITEMS: usize = 70;

fn machine() -> Machine {
    let here = HostEnvironment {
        name: "host processor".to_owned(),
        api: "host",
        memory: None,
        features: Vec::new(),
        yield_now: || Box::pin(std::future::ready(())),
    };
    Machine::new(Box::new(Cpu::open(here)))
}

fn job() -> Job {
    job_in(DType::F32)
}

fn job_in(dtype: DType) -> Job {
    let model = Classifier { features: 3, hidden: 4, classes: 2 };
    let values = (0..3 * ITEMS).map(|at| (at % 7) as f32 - 3.0).collect();
    let rows = Rows { values, width: 3, targets: vec![0; ITEMS] };
    Job::new(&model, &(&model as &dyn Network).initial(5), &rows, dtype).expect("its own weights")
}

fn all_passes(job: &Job) -> Passes {
    block_on(passes(&mut machine(), job, async |_| true)).expect("passes")
}

#[test]
fn a_job_has_the_same_answers_after_its_bytes() {
    let job = job();
    let read = Job::from_bytes(&job.to_bytes().expect("bytes")).expect("a job");
    assert_eq!((&read.input, read.logits, read.items()), (&job.input, 2, ITEMS));
    assert_eq!((&read.batch, &read.single), (&job.batch, &job.single));
    let (ours, theirs) = (all_passes(&job), all_passes(&read));
    assert_eq!(ours.answers, theirs.answers);
    assert_eq!((ours.answers.logits.len(), ours.answers.probabilities.len()), (2 * ITEMS, 2 * ITEMS));
    assert_eq!((ours.passes.len(), ours.requests.len()), (PASSES, REQUESTS));
    let bytes = ours.to_bytes().expect("bytes");
    assert!(bytes.len() <= longest_passes(&job));
    assert_eq!(Passes::from_bytes(&bytes, &job).expect("passes"), ours);
}

#[test]
fn only_wanted_outputs_come_back_and_changed_arrays_are_taken() {
    let job = job();
    let (mut machine, mut arrays) = (machine(), job.parameters.clone());
    let wanted = [LOGITS];
    let hidden = &job.single[0].outputs[0].1;
    let mut logits = Vec::new();
    // The first execution prepares the cases. Later ones take the parameters from there, and rows between layers by copies.
    for item in [0, 1, 1] {
        job.inputs(&[item], &mut arrays);
        block_on(machine.run_for(&wanted, &job.single, &mut arrays)).expect("it runs");
        logits.push(arrays.f32(LOGITS));
    }
    assert!(logits[0] != logits[1] && logits[1] == logits[2], "{logits:?}");
    let mut others = job.parameters.clone();
    job.inputs(&[1], &mut others);
    block_on(machine.run_for(&wanted, &job.single, &mut others)).expect("it runs");
    assert_eq!((others.bytes(hidden), others.bytes(PROBABILITIES)), (None, None), "they stay with the cases");
    block_on(machine.run(&job.single, &mut others)).expect("it runs");
    assert!(others.bytes(hidden).is_some() && others.bytes(PROBABILITIES).is_some());
    // Other parameters of the same names.
    let (name, shape) = (&Classifier { features: 3, hidden: 4, classes: 2 } as &dyn Network).parameters().remove(0);
    arrays.set_f32(&name, &vec![0.5; shape.iter().product()]);
    block_on(machine.run_for(&wanted, &job.single, &mut arrays)).expect("it runs");
    let changed = arrays.f32(LOGITS);
    let mut fresh = self::machine();
    block_on(fresh.run(&job.single, &mut arrays)).expect("it runs");
    assert!(changed != logits[2] && changed == arrays.f32(LOGITS), "{changed:?}");
    // Other columns of an array that has not changed.
    let mut columns = vec![job.single[0].clone()];
    let of = |first| Source::Columns { array: "wide".to_owned(), first, count: 3, width: 6 };
    let at = columns[0].inputs.iter().position(|(_, source)| source.array() == job.input.name).expect("its input");
    arrays.set_f32("wide", &[1.0, 2.0, 3.0, -1.0, 0.0, 2.0]);
    let mut results = Vec::new();
    for first in [0, 0, 3] {
        columns[0].inputs[at].1 = of(first);
        block_on(machine.run(&columns, &mut arrays)).expect("it runs");
        results.push(arrays.f32(hidden));
    }
    assert!(results[0] == results[1] && results[1] != results[2], "{results:?}");
    // An array that is missing now is an error, although the case has its earlier contents.
    let mut none = Arrays::default();
    job.inputs(&[1], &mut none);
    assert!(block_on(machine.run_for(&wanted, &job.single, &mut none)).is_err());
}

#[test]
fn a_type_that_the_device_does_not_have_is_named() {
    let job = job_in(DType::F16);
    assert!(job.batch[0].problem.ends_with("/f16") && job.batch[2].problem.ends_with("/f32"), "{:?}", job.batch);
    let error = block_on(passes(&mut machine(), &job, async |_| true)).expect_err("the processor has f32 alone");
    assert!(error.to_string().contains("this device does not compute with f16"), "{error}");
}

/// A full batch has the layers of 64 rows, and each row's logits are those of the row alone up to the order of sums.
#[test]
fn each_item_has_the_logits_that_it_has_alone() {
    let job = job();
    let all = block_on(answers(&mut machine(), &job)).expect("answers").logits;
    let alone = |item: usize| {
        let bytes = job.input.bytes[item * job.input.item..][..job.input.item].to_vec();
        let job = Job { input: Input { bytes, ..job.input.clone() }, ..job.clone() };
        block_on(answers(&mut machine(), &job)).expect("answers").logits
    };
    for item in [0, 63, 64, ITEMS - 1] {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        assert!(all[2 * item..][..2].iter().zip(&alone(item)).all(near), "{item}");
    }
}

#[test]
fn a_caller_may_stop_between_parts_and_hears_how_far_it_is() {
    let mut shares = Vec::new();
    let whole = block_on(passes(&mut machine(), &job(), async |share| {
        shares.push(share);
        true
    }));
    assert!(whole.is_ok() && shares.len() == 2 + PASSES + 1, "{shares:?}");
    assert!(shares.is_sorted() && shares[0] == 0.0 && shares.iter().all(|share| *share < 1.0), "{shares:?}");
    let stopped = block_on(passes(&mut machine(), &job(), async |share| share < 0.5));
    assert!(matches!(stopped, Err(LearnError::Stopped)));
}

/// Type, extents and bytes of a tensor.
type Tensor = (Dtype, Vec<usize>, Vec<u8>);

/// Returns a file with some of its tensors replaced, or absent.
fn with(bytes: &[u8], changes: &[(&str, Option<Tensor>)]) -> Vec<u8> {
    let about: HashMap<String, String> =
        SafeTensors::read_metadata(bytes).expect("a header").1.metadata().clone().expect("metadata");
    let file = SafeTensors::deserialize(bytes).expect("a file");
    let mut all: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        .collect();
    for (name, change) in changes {
        all.retain(|(other, ..)| other != name);
        all.extend(change.clone().map(|(dtype, shape, bytes)| ((*name).to_owned(), dtype, shape, bytes)));
    }
    let views = all.iter().map(|(name, dtype, shape, bytes)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).expect("its extents"))
    });
    safetensors::serialize(views.collect::<Vec<_>>(), Some(about)).expect("a file")
}

fn floats(count: usize) -> Option<Tensor> {
    Some((Dtype::F32, vec![count], vec![0; 4 * count]))
}

fn times(of: &[f64]) -> Option<Tensor> {
    Some((Dtype::F64, vec![of.len()], of.iter().flat_map(|time| time.to_le_bytes()).collect()))
}

#[test]
fn passes_of_other_sizes_or_times_are_refused() {
    let job = job();
    let bytes = all_passes(&job).to_bytes().expect("bytes");
    let rows = 2 * ITEMS;
    for (change, part) in [
        (("logits", floats(rows - 1)), "tensor `logits` has 139 elements, and 140 are needed"),
        (("logits", floats(rows + 1)), "tensor `logits` has 141 elements"),
        (("logits", times(&vec![0.0; rows])), "no tensor `logits` of F32"),
        (("logits", None), "no tensor `logits`"),
        (("probabilities", floats(1)), "tensor `probabilities` has 1 elements"),
        (("passes", times(&[1e6; 4])), "tensor `passes` has 4 elements, and 5 are needed"),
        (("passes", times(&[1e6, 1e6, 0.0, 1e6, 1e6])), "pass 2 took 0 ns"),
        (("passes", times(&[f64::NAN; 5])), "pass 0 took NaN ns"),
        (("requests", times(&[f64::INFINITY; REQUESTS])), "request 0 took inf ns"),
        (("requests", times(&[-1.0; REQUESTS])), "request 0 took -1 ns"),
        (("requests", floats(REQUESTS)), "no tensor `requests` of F64"),
        (("apart", times(&[-1.0])), "passes are -1 apart"),
        (("apart", times(&[f64::NAN])), "passes are NaN apart"),
        (("apart", None), "no tensor `apart`"),
    ] {
        let error = Passes::from_bytes(&with(&bytes, &[change]), &job).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(Passes::from_bytes(&with(&bytes, &[("requests", times(&[0.0; REQUESTS]))]), &job).is_ok());
    assert!(matches!(Passes::from_bytes(b"nothing", &job), Err(BytesError::Format(_))));
    assert!(Passes::from_bytes(&bytes[..bytes.len() - 1], &job).is_err());
    assert_eq!(Passes::from_bytes(&job.to_bytes().expect("bytes"), &job), Err(BytesError::About("memory")));
}

#[test]
fn damaged_jobs_are_refused() {
    let bytes = job().to_bytes().expect("bytes");
    let empty = Some((Dtype::F32, vec![0, 3], Vec::new()));
    assert_eq!(Job::from_bytes(&with(&bytes, &[("input", empty)])).err(), Some(BytesError::Empty));
    for (change, part) in [
        (("input", floats(210)), "`input` of rows"),
        (("input", times(&[0.0])), "`input` of F32"),
        (("input", None), "no tensor `input`"),
        (("parameter.1.weight", times(&[0.0])), "`parameter.1.weight` of F32"),
    ] {
        let error = Job::from_bytes(&with(&bytes, &[change])).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut job = job();
    let columns = |first, count, width| Source::Columns { array: "x".to_owned(), first, count, width };
    for source in [columns(1, 3, 3), columns(usize::MAX, 1, 3), columns(0, 0, 0), columns(0, 1, usize::MAX / 2)] {
        job.single[0].inputs[0].1 = source;
        let error = Job::from_bytes(&job.to_bytes().expect("bytes")).expect_err("columns");
        assert!(matches!(error, BytesError::Columns(_)), "{error}");
    }
}

#[test]
fn layers_that_do_not_fit_their_arrays_are_errors() {
    let of = |change: &dyn Fn(&mut Layer)| {
        let mut job = job();
        change(&mut job.batch[0]);
        let error = block_on(passes(&mut machine(), &job, async |_| true)).expect_err("refused");
        error.to_string()
    };
    for (said, part) in [
        (of(&|layer| layer.problem = "nope/fwd/r1/f32".to_owned()), "layer nope/fwd/r1/f32: "),
        (of(&|layer| layer.inputs[0].1 = Source::Whole("none".to_owned())), "there is no such array"),
        (of(&|layer| layer.inputs[0].0 = "none".into()), "no such buffer: `none`"),
        (of(&|layer| layer.inputs[0].0 = layer.outputs[0].0.clone()), "no such buffer"),
        (of(&|layer| layer.outputs[0].0 = "none".into()), "no such buffer: `none`"),
    ] {
        assert!(said.contains(part), "{said}");
    }
    let mut short = job();
    short.parameters.set_f32("1.weight", &[0.0]);
    let error = block_on(passes(&mut machine(), &short, async |_| true)).expect_err("a parameter of another length");
    assert!(matches!(error, LearnError::Layer { .. }), "{error}");
    let mut other = job();
    other.logits = 3;
    let error = block_on(passes(&mut machine(), &other, async |_| true)).expect_err("logits of another length");
    assert!(error.to_string().contains("array `logits` has 512 bytes, and 768 are needed"), "{error}");
}

//! `eval`: computes one case on the user's own arrays, for comparison with NumPy or PyTorch.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use parallax_engine::plan::Planned;
use parallax_ir::device::{Batch, POISON, Profiler};
use parallax_ir::{BufferSpec, Case, Inputs};
use parallax_workloads::parse_case;

use crate::args::{DEVICES, Device, Native};
use crate::console::{errln, outln};
use crate::output::writable_folder;
use crate::targets::{Opened, choose, only};
use crate::{files, npy};

/// `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// Case, as workload/direction/shape/dtype/variant
    pub case: String,
    /// Input of the case, as NAME=FILE.npy; repeat it for every input
    #[arg(long, value_name = "NAME=FILE")]
    pub input: Vec<String>,
    /// Folder for the outputs, as NAME.npy
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
    /// cpu, wgpu or cuda [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    /// Value of a tunable, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub native: Native,
}

/// Computes the case, and writes every output.
pub fn eval(args: &Eval) -> anyhow::Result<()> {
    let case = parse_case(&args.case)?;
    let inputs = inputs(&case, &args.input)?;
    // Kernels use input values as indices. No kernel is launched on arrays with indices out of range.
    case.problem.accepts(&inputs)?;
    writable_folder(&args.output_dir)?;
    let specs = case.problem.buffers();
    for output in case.problem.outputs() {
        let read = args.input.iter().filter_map(|pair| Some(Path::new(pair.split_once('=')?.1)));
        files::not_an_input(&path(args, &specs[output]), read)?;
    }
    let (name, opened) = choose(args.target.as_deref(), &Device::from(&args.native), &args.set)?.one();
    let Opened::Here(mut profiler) = opened else { bail!("eval runs on cpu, wgpu or cuda, not on {name}") };
    let planned = only(&case, &*profiler, name)?;
    if let Some(actual) = &planned.actual {
        errln!("{case} runs as {}: {}", actual.variant, actual.reason);
    }
    let outputs = pollster::block_on(compute(&mut *profiler, &planned, &inputs))?;
    for (spec, bytes) in outputs {
        let path = path(args, &spec);
        files::write(&path, |file| npy::write(file, &spec, spec.elem.storage(case.problem.dtype), &bytes))?;
        outln!("{}", path.display());
    }
    Ok(())
}

/// Returns the path of an output.
fn path(args: &Eval, output: &BufferSpec) -> PathBuf {
    args.output_dir.join(format!("{}.npy", output.name))
}

async fn compute(
    profiler: &mut dyn Profiler,
    planned: &Planned,
    inputs: &Inputs,
) -> anyhow::Result<Vec<(BufferSpec, Vec<u8>)>> {
    let case = planned.runs();
    let mut prepared = profiler.prepare(&case, inputs, 1).await?;
    prepared.poison(POISON).await?;
    prepared.measure(Batch::new(1)).await?;
    let mut outputs = Vec::new();
    let specs = case.problem.buffers();
    for index in case.problem.outputs() {
        let bytes = specs[index].bytes(case.problem.dtype).0;
        outputs.push((specs[index].clone(), prepared.read_back(index, 0..bytes).await?));
    }
    Ok(outputs)
}

fn inputs(case: &Case, given: &[String]) -> anyhow::Result<Inputs> {
    let mut inputs = case.problem.inputs(0);
    let specs = case.problem.buffers();
    let wanted: Vec<(usize, &BufferSpec)> = specs.iter().enumerate().filter(|(_, s)| s.role.fill().is_some()).collect();
    let names = wanted.iter().map(|(_, s)| s.name).collect::<Vec<_>>().join(", ");
    let mut seen = Vec::new();
    for pair in given {
        let (name, path) =
            pair.split_once('=').with_context(|| format!("--input {pair}: write NAME=FILE.npy, as in q=q.npy"))?;
        let Some((index, spec)) = wanted.iter().find(|(_, s)| s.name == name) else {
            bail!("--input {name}: {case} has no such input; its inputs are {names}");
        };
        if seen.contains(&name) {
            bail!("--input {name} is given twice; leave one of them out");
        }
        let path = Path::new(path);
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let bytes = npy::read(BufReader::new(file), path, spec, spec.elem.storage(case.problem.dtype))?;
        inputs.replace(*index, bytes)?;
        seen.push(name);
    }
    if let Some((_, spec)) = wanted.iter().find(|(_, s)| !seen.contains(&s.name)) {
        bail!("input `{}` is missing: give --input {}=FILE.npy of shape {:?}", spec.name, spec.name, spec.dims);
    }
    Ok(inputs)
}

//! `eval`: one case on the user's own arrays, so that anyone can hold our kernels against NumPy or PyTorch.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use parallax_core::device::{Batch, POISON, Profiler};
use parallax_core::plan::{Planned, Spec, plan};
use parallax_core::suite::{BufferSpec, Case, Inputs, Storage};

use crate::args::Device;
use crate::output::writable_folder;
use crate::targets::{Opened, choose};

/// `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// The case, as workload/direction/shape/dtype/variant
    pub case: String,
    /// NAME=FILE.npy for every input of the case
    #[arg(long, value_name = "NAME=FILE")]
    pub input: Vec<String>,
    /// Folder for NAME.npy of every output
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
    /// cpu, wgpu or cuda; the best device when left out
    #[arg(long)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Compute, and write every output.
pub fn eval(args: &Eval) -> anyhow::Result<()> {
    let case: Case = args.case.parse()?;
    let inputs = inputs(&case, &args.input)?;
    // Kernels index with what they are given: nothing is launched on arrays that would lead them astray.
    case.problem.accepts(&inputs)?;
    writable_folder(&args.output_dir)?;
    let (name, opened) = choose(args.target.as_deref(), &args.device, |_, _| {})?.remove(0);
    let Opened::Here(mut profiler) = opened else { bail!("eval runs on cpu, wgpu or cuda, not on {name}") };
    let spec = Spec { case: vec![case.to_string()], ..Spec::default() };
    let mut plan = plan(&spec, &profiler.device().caps)?;
    if let Some(skip) = plan.skips.first() {
        bail!("{case} cannot run on {} ({name}): {}", profiler.device().name, skip.reason);
    }
    let planned = plan.cases.remove(0);
    if let Some(actual) = &planned.actual {
        eprintln!("{case} runs as {}: {}", actual.variant, actual.reason);
    }
    let outputs = pollster::block_on(compute(&mut *profiler, &planned, &inputs))?;
    for (spec, bytes) in outputs {
        let path = args.output_dir.join(format!("{}.npy", spec.name));
        write(&path, &spec, spec.elem.storage(case.problem.dtype), &bytes)?;
        println!("{}", path.display());
    }
    Ok(())
}

async fn compute(
    profiler: &mut dyn Profiler,
    planned: &Planned,
    inputs: &Inputs,
) -> anyhow::Result<Vec<(BufferSpec, Vec<u8>)>> {
    let case = planned.runs();
    let mut prepared = profiler.prepare(&case, inputs, 1).await?;
    prepared.poison(POISON).await?;
    prepared.measure(Batch::of(1)).await?;
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
        let bytes = read(Path::new(path), spec, spec.elem.storage(case.problem.dtype))?;
        inputs.replace(*index, bytes)?;
        seen.push(name);
    }
    if let Some((_, spec)) = wanted.iter().find(|(_, s)| !seen.contains(&s.name)) {
        bail!("input `{}` is missing: give --input {}=FILE.npy of shape {:?}", spec.name, spec.name, spec.dims);
    }
    Ok(inputs)
}

/// NumPy's type string of a storage type. NumPy has no bfloat16; its bits travel as uint16.
fn type_string(storage: Storage) -> &'static str {
    match storage {
        Storage::F32 => "<f4",
        Storage::F16 => "<f2",
        Storage::BF16 => "<u2",
        Storage::U32 => "<u4",
    }
}

fn read(path: &Path, spec: &BufferSpec, storage: Storage) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let npy = npyz::NpyFile::new(BufReader::new(file))
        .with_context(|| format!("{} is not a NumPy array file (numpy.save writes them)", path.display()))?;
    let got = npy.dtype().descr().trim_matches('\'').to_owned();
    let want = type_string(storage);
    // The byte order of single bytes and of this machine is written `|` or `=`.
    if got != want {
        let hint = if storage == Storage::BF16 { " (the bits of bfloat16 as uint16)" } else { "" };
        bail!("{}: dtype is {got}, input `{}` needs {want}{hint}; use .astype", path.display(), spec.name);
    }
    if npy.shape() != spec.dims {
        bail!("{}: shape is {:?}, input `{}` needs {:?}", path.display(), npy.shape(), spec.name, spec.dims);
    }
    if npy.order() != npyz::Order::C && spec.dims.len() > 1 {
        bail!("{}: array is in Fortran order; save numpy.ascontiguousarray of it", path.display());
    }
    match storage {
        Storage::F32 => elements(npy, f32::to_le_bytes),
        Storage::F16 => elements(npy, half::f16::to_le_bytes),
        Storage::BF16 => elements(npy, u16::to_le_bytes),
        Storage::U32 => elements(npy, u32::to_le_bytes),
    }
    .with_context(|| format!("{} ends early", path.display()))
}

/// All elements of an array as little-endian bytes.
fn elements<T: npyz::Deserialize, const N: usize>(
    npy: npyz::NpyFile<BufReader<File>>,
    bytes: fn(T) -> [u8; N],
) -> std::io::Result<Vec<u8>> {
    Ok(npy.into_vec::<T>()?.into_iter().flat_map(bytes).collect())
}

fn write(path: &Path, spec: &BufferSpec, storage: Storage, bytes: &[u8]) -> anyhow::Result<()> {
    let file = BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?);
    match storage {
        Storage::F32 => save(file, &spec.dims, bytes, f32::from_le_bytes),
        Storage::F16 => save(file, &spec.dims, bytes, half::f16::from_le_bytes),
        Storage::BF16 => save(file, &spec.dims, bytes, u16::from_le_bytes),
        Storage::U32 => save(file, &spec.dims, bytes, u32::from_le_bytes),
    }
    .with_context(|| format!("cannot write {}", path.display()))
}

/// Write an array from little-endian bytes of its elements.
fn save<T: npyz::AutoSerialize, const N: usize>(
    file: BufWriter<File>,
    dims: &[u64],
    bytes: &[u8],
    value: fn([u8; N]) -> T,
) -> std::io::Result<()> {
    use npyz::WriterBuilder;
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(dims).writer(file).begin_nd()?;
    writer.extend(bytes.chunks_exact(N).map(|b| value(b.try_into().expect("chunks of N"))))?;
    writer.finish()
}

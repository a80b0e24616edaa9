//! `lab`: side-by-side comparison of two kernel sources of the user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use parallax_lab::{
    BindingPoint, BindingRow, LONGEST, LabError, Phase, Plan, Report, Request, STACK, Side, Source, View, bindings, run,
};
use parallax_schema::units::counted;
use pollster::block_on;
use serde::Serialize;

use crate::args::{DEVICES, Native, RESULTS};
use crate::console::{self, Painted, errln, noteln, width};
use crate::interrupts::{interrupted, listen_for_interrupts};
use crate::table;
use crate::targets::wgpu_options;

/// `lab`.
#[derive(Debug, Clone, Args)]
pub struct Lab {
    /// Kernel A in WGSL, the base of the ratio
    pub a: PathBuf,
    /// Kernel B in WGSL
    pub b: PathBuf,
    /// Entry point; a second one is B's [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub entry: Vec<String>,
    /// Workgroups; a second value is B's [default: a thread per output]
    #[arg(long, value_name = "X,Y,Z")]
    pub workgroups: Vec<String>,
    /// Elements of arrays without a length, or of one binding
    ///
    /// As in --elements 4096 --elements 2=64; binding 2 is in group 0, and 1.2 in group 1. Default: 1048576.
    #[arg(long, value_name = "[BINDING=]N")]
    pub elements: Vec<String>,
    /// Contents of a binding: a .npy file, numbers, zeros or seeded
    ///
    /// As in --input 0=x.npy --input 2=64,0.5 --input 1=zeros. Default: seeded; atomics have zeros, and integers of a uniform buffer
    /// are the number of elements.
    #[arg(long, value_name = "BINDING=CONTENTS")]
    pub input: Vec<String>,
    /// Value of an `override`; A. or B. before it for one kernel
    ///
    /// As in --override WIDTH=8 --override B.TILE=16. An override with @id has its number as its name. Booleans are 0 or 1. Default: the
    /// value of the kernel source.
    #[arg(long = "override", value_name = "[A.|B.]NAME=VALUE")]
    pub overrides: Vec<String>,
    /// Seed of the contents
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Largest difference of two floats, as a share of the larger
    ///
    /// Default: 0.0001 for f32, 0.01 for f16. Integers are compared exactly.
    #[arg(long, value_name = "SHARE")]
    pub tolerance: Option<f64>,
    /// Seconds of timing for both kernels together
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0)]
    pub budget: f64,
    /// Iterations of one loop in one thread at most [default: 1048576]
    #[arg(long, value_name = "N", default_value_t = 1 << 20, hide_default_value = true)]
    pub iterations: u32,
    /// Seconds after which a kernel without an end is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub limit: f64,
    /// Print the result as JSON on stdout, everything else on stderr
    #[arg(long, help_heading = RESULTS)]
    pub json: bool,
    /// GPU, by number, name, UUID or PCI address
    #[arg(long, value_name = "GPU", help_heading = DEVICES)]
    pub device: Option<String>,
}

/// JSON of a comparison.
#[derive(Serialize)]
struct Output<'a> {
    sentence: &'a str,
    bindings: &'a [BindingRow],
    #[serde(flatten)]
    report: &'a Report,
}

/// Compares two kernels. The exit code is 1 for outputs that differ and for a kernel that fails on the device.
pub fn lab(args: &Lab) -> anyhow::Result<ExitCode> {
    let request = request(args)?;
    listen_for_interrupts()?;
    let args = args.clone();
    // Compilers recurse into operands, and a kernel source of the user may have many.
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || compared(&args, request));
    thread
        .context("cannot start a thread")?
        .join()
        .map_err(|_| anyhow!("the comparison failed; see the message above"))?
}

fn compared(args: &Lab, request: Request) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(request).map_err(|error| named(args, error))?;
    let rows = bindings(&plan);
    let native = Native { device: args.device.clone(), ..Native::default() };
    let options = wgpu_options(&native).map_err(|why| anyhow!("target wgpu: {why}"))?;
    let mut wgpu = block_on(parallax_shaders::open(options)).map_err(|why| anyhow!("target wgpu: {why}"))?;
    let mut phase = |phase: Phase| {
        noteln!(
            "{}",
            match phase {
                Phase::Compile => "compiling both kernels",
                Phase::Check => "comparing their outputs",
                Phase::Time => "timing both kernels",
            }
        );
    };
    match block_on(run(&mut wgpu, &plan, &mut phase, || !interrupted())) {
        Ok(report) => {
            let view = View::from(&report);
            match args.json {
                true => {
                    let output = Output { sentence: &view.sentence, bindings: &rows, report: &report };
                    console::raw(&serde_json::to_string(&output)?);
                }
                false => show(&view, &rows),
            }
            Ok(if view.agrees { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Err(error) => {
            let failed = matches!(
                error,
                LabError::Kernel { .. } | LabError::Guard { .. } | LabError::Endless { .. } | LabError::Device(_)
            );
            if error.lost() {
                // The queue of a lost device would wait for its work without end.
                std::mem::forget(wgpu);
            }
            let error = named(args, error);
            if !failed {
                return Err(error);
            }
            errln!("parallax: {}", console::mistake(&error));
            Ok(ExitCode::from(1))
        }
    }
}

fn show(view: &View, rows: &[BindingRow]) {
    let width = width();
    let bound = rows.iter().map(|row| {
        let elements = row.elements.map_or("fixed".to_owned(), |elements| elements.to_string());
        let name = format!("{} {}", row.binding, row.name);
        vec![name, row.kind.to_owned(), row.type_name.clone(), row.source.clone(), elements, row.size.clone()]
    });
    let outputs = view.outputs.iter().map(|output| {
        let name = format!("{} {}", output.binding, output.name);
        let (largest, relative) = (output.largest.clone(), output.relative.clone());
        vec![name, output.verdict.to_owned(), output.first.clone(), output.differing.clone(), largest, relative]
    });
    let times = view.times.iter().map(|time| {
        let (median, interval) = (time.median.clone(), time.interval.clone());
        vec![time.kernel.to_string(), time.launch.clone(), median, interval, time.samples.clone()]
    });
    let columns = ["output", "verdict", "first difference", "differing", "largest", "relative"];
    let mut tables = vec![
        table::lines([&view.device], width),
        table::plain(&["binding", "kind", "type", "contents", "elements", "size"], 4, bound, width),
        table::plain(&columns, 3, outputs, width),
    ];
    if !view.times.is_empty() {
        let columns = ["kernel", "launch", "median", "95 % interval", "samples"];
        tables.push(table::plain(&columns, 2, times, width));
    }
    let ratio = view.ratio.iter().map(|ratio| format!("B over A: {ratio}"));
    let said: Vec<String> = ratio.chain([view.sentence.clone()]).chain(view.notes.iter().cloned()).collect();
    tables.push(table::lines(said, width));
    console::show(&table::below_each_other(tables.into_iter().filter(|table: &Painted| !table.is_empty())));
}

/// Returns an error with the file of its kernel.
fn named(args: &Lab, error: LabError) -> anyhow::Error {
    let (label, message) = match &error {
        LabError::Rejected { label, line: Some(line), message } => (*label, format!(":{line}: {message}")),
        LabError::Rejected { label, line: None, message } => (*label, format!(": {message}")),
        _ => return error.into(),
    };
    let path = [&args.a, &args.b][label as usize];
    anyhow!("{}{message}", path.display())
}

/// Returns the request of the arguments.
fn request(args: &Lab) -> anyhow::Result<Request> {
    let [entry_a, entry_b] = of_both("--entry", &args.entry)?;
    let [workgroups_a, workgroups_b] = of_both("--workgroups", &args.workgroups)?;
    let side = |path: &Path, entry: Option<&String>, workgroups: Option<&String>| {
        let workgroups = workgroups.map(|text| grid(text)).transpose()?;
        anyhow::Ok(Side { text: text(path)?, entry: entry.cloned(), workgroups, ..Side::default() })
    };
    let mut request = Request {
        a: side(&args.a, entry_a, workgroups_a)?,
        b: side(&args.b, entry_b, workgroups_b)?,
        seed: args.seed,
        tolerance: args.tolerance,
        budget: args.budget,
        iterations: args.iterations,
        limit: args.limit,
        sources: sources(&args.input)?,
        ..Request::default()
    };
    for given in &args.overrides {
        let (names, value) = given
            .split_once('=')
            .and_then(|(name, value)| Some((name.trim(), value.trim().parse::<f64>().ok()?)))
            .filter(|(_, value)| value.is_finite())
            .with_context(|| format!("--override {given}: write NAME=VALUE, as in WIDTH=8 or B.WIDTH=8"))?;
        let (name, sides) = match names.split_once('.') {
            Some(("A", name)) => (name, vec![&mut request.a]),
            Some(("B", name)) => (name, vec![&mut request.b]),
            Some(_) => bail!("--override {given}: only A. and B. may stand before the name"),
            None => (names, vec![&mut request.a, &mut request.b]),
        };
        for side in sides {
            side.overrides.insert(name.to_owned(), value);
        }
    }
    for given in &args.elements {
        let number = |text: &str| {
            text.trim().parse().with_context(|| format!("--elements {given}: write a number, as in 4096 or 2=64"))
        };
        match given.split_once('=') {
            Some((binding, text)) => drop(request.lengths.insert(point("--elements", binding)?, number(text)?)),
            None => request.elements = number(given)?,
        }
    }
    Ok(request)
}

/// Returns the values of an option for A and for B. One value is for both.
fn of_both<'a>(option: &str, given: &'a [String]) -> anyhow::Result<[Option<&'a String>; 2]> {
    match given {
        [] => Ok([None, None]),
        [both] => Ok([Some(both), Some(both)]),
        [a, b] => Ok([Some(a), Some(b)]),
        more => bail!("{option} is given {}: once for both kernels, or once for each", counted(more.len(), "time")),
    }
}

fn point(option: &str, text: &str) -> anyhow::Result<BindingPoint> {
    text.parse().map_err(|error| anyhow!("{option} {text}: {error}"))
}

/// Returns workgroups from one to three numbers.
fn grid(text: &str) -> anyhow::Result<[u32; 3]> {
    let wrong = || anyhow!("--workgroups {text}: write one to three numbers, as in 64 or 64,8,1");
    let numbers = text.split(',').map(|part| part.trim().parse().map_err(|_| wrong()));
    let numbers = numbers.collect::<anyhow::Result<Vec<u32>>>()?;
    match numbers[..] {
        [x] => Ok([x, 1, 1]),
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err(wrong()),
    }
}

/// Reads a kernel source. No more is read than the limit allows.
fn text(path: &Path) -> anyhow::Result<String> {
    use std::io::Read;
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() > LONGEST {
        bail!("{} has more than {LONGEST} bytes, the limit of a kernel source", path.display());
    }
    String::from_utf8(bytes).with_context(|| format!("cannot read {} as UTF-8", path.display()))
}

/// Returns the contents of bindings.
fn sources(given: &[String]) -> anyhow::Result<BTreeMap<BindingPoint, Source>> {
    let mut sources = BTreeMap::new();
    for pair in given {
        let how = "write BINDING=FILE.npy, BINDING=NUMBERS, BINDING=zeros or BINDING=seeded";
        let (binding, contents) = pair.split_once('=').with_context(|| format!("--input {pair}: {how}"))?;
        let numbers: Result<Vec<f64>, _> = contents.split(',').map(|number| number.trim().parse()).collect();
        let source = match (contents, numbers) {
            ("zeros", _) => Source::Zeros,
            ("seeded", _) => Source::Seeded,
            (_, Ok(numbers)) => Source::Values(numbers),
            (path, Err(_)) => Source::File(std::fs::read(path).with_context(|| format!("cannot read {path}"))?),
        };
        let point = point("--input", binding)?;
        if sources.insert(point, source).is_some() {
            bail!("--input {point} is given twice; leave one of them out");
        }
    }
    Ok(sources)
}

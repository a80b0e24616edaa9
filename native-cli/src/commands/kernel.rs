//! `kernel`: the final text of a case's kernels and how they would be launched, for whoever wants to run or time them
//! elsewhere.

use anyhow::{Context, bail};
use clap::Args;
use parallax_core::suite::{Arg, Case, Stage};
use parallax_cuda::compile::{self, Arch};
use serde_json::{Value, json};

use crate::args::{DEVICES, Device, Native};
use crate::console;
use crate::targets::{Opened, choose};
use crate::texts::{assembled, settled};

/// `kernel`.
#[derive(Debug, Args)]
pub struct Kernel {
    /// The case, as workload/direction/shape/dtype/variant
    pub case: String,
    /// wgpu or cuda [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    /// A value for what the variant leaves open, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Print text, buffers and launches as JSON
    #[arg(long)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub native: Native,
}

/// Print the text, or text and launches as JSON.
pub fn kernel(args: &Kernel) -> anyhow::Result<()> {
    let case: Case = args.case.parse()?;
    let (target, opened) = choose(args.target.as_deref(), &Device::from(&args.native), &args.set)?.one();
    let Opened::Here(profiler) = opened else {
        bail!("a page assembles its texts by itself; they are those of the target wgpu");
    };
    let caps = &profiler.device().caps;
    let program = case.program(caps).with_context(|| {
        format!("{case} has no kernels of its own on the target {target}; name the variant that runs")
    })?;
    let dtype = case.problem.dtype;
    let program = settled(program, dtype, caps.dialect, &args.native)?;
    let (texts, places) = assembled(&program, dtype, caps.dialect, &args.native)?;
    if !args.json {
        let plain: Vec<String> = match &texts[..] {
            [one] => vec![one.text.clone()],
            several => several.iter().map(|one| format!("// The text of {}\n{}", one.file, one.text)).collect(),
        };
        console::raw(&plain.join("\n"));
        return Ok(());
    }
    let buffers = case.problem.buffers();
    let bytes = |name: &str| buffers.iter().find(|b| b.name == name).map(|b| b.bytes(dtype).0);
    let stage = |(stage, place): (&Stage, &Option<usize>)| {
        let arg = |arg: &Arg| {
            let mut told = json!({"parameter": arg.parameter, "buffer": arg.buffer, "bytes": bytes(arg.buffer)});
            if let Some(map) = &arg.map {
                let (dims, strides, tile, swizzle) = (&map.dims, &map.strides, &map.tile, map.swizzle.bytes());
                told["tensor_map"] = json!({"dims": dims, "strides": strides, "tile": tile, "swizzle": swizzle});
            }
            told
        };
        let args: Vec<Value> = stage.args.iter().map(arg).collect();
        let mut told = json!({"label": stage.label, "entry": stage.entry(), "text": place, "args": args});
        if let Some(kernel) = stage.kernel_launch() {
            told["grid"] = json!(kernel.grid);
            told["block"] = json!(kernel.workgroup);
            told["cluster"] = json!(kernel.cuda.cluster);
            told["dynamic_shared_bytes"] = json!(kernel.cuda.dynamic_shared_bytes);
        }
        told
    };
    let stages: Vec<Value> = program.stages.iter().zip(&places).map(stage).collect();
    let texts: Vec<Value> = texts.iter().map(|one| json!({"file": one.file, "source": one.text})).collect();
    // WGSL has no options. An NVRTC that is older than the device compiles for an older architecture instead.
    let options = caps.compute_capability.map(|(major, minor)| compile::options(Arch::new(major, minor)));
    let description = json!({
        "case": case.to_string(), "target": target, "texts": texts,
        "options": options.unwrap_or_default(), "stages": stages
    });
    console::raw(&description.to_string());
    Ok(())
}

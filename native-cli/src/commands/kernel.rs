//! `kernel`: the final text of a case's kernels and how they would be launched, for whoever wants to run or time them
//! elsewhere.

use anyhow::{Context, bail};
use clap::Args;
use parallax_core::suite::{Case, Dialect};
use parallax_cuda::compile::{self, Arch};
use serde_json::{Value, json};

use crate::args::Device;
use crate::targets::{Opened, choose};

/// `kernel`.
#[derive(Debug, Args)]
pub struct Kernel {
    /// The case, as workload/direction/shape/dtype/variant
    pub case: String,
    /// wgpu or cuda; the best device when left out
    #[arg(long)]
    pub target: Option<String>,
    /// Print text, buffers and launches as JSON
    #[arg(long)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Print the text, or text and launches as JSON.
pub fn kernel(args: &Kernel) -> anyhow::Result<()> {
    let case: Case = args.case.parse()?;
    let (target, opened) = choose(args.target.as_deref(), &args.device, |_, _| {})?.remove(0);
    let Opened::Here(profiler) = opened else {
        bail!("a page assembles its texts by itself; they are those of the target wgpu");
    };
    let caps = &profiler.device().caps;
    let program = case.program(caps).with_context(|| {
        format!("{case} has no kernels of its own on the target {target}; name the variant that runs")
    })?;
    let source = match caps.dialect {
        Dialect::Cuda => parallax_cuda::text::assemble(&case, &program)?.source,
        Dialect::Wgsl => {
            let text = parallax_shaders::text::assemble(&case, &program);
            text.with_context(|| format!("{case} has no WGSL"))?.wgsl
        }
        _ => bail!("the target {target} has no kernel texts"),
    };
    if !args.json {
        println!("{source}");
        return Ok(());
    }
    let buffers = case.problem.buffers();
    let bytes = |name: &str| buffers.iter().find(|b| b.name == name).map(|b| b.bytes(case.problem.dtype).0);
    let stages: Vec<Value> = program
        .stages
        .iter()
        .map(|stage| {
            let uses: Vec<Value> =
                stage.uses.iter().map(|(name, _)| json!({"buffer": name, "bytes": bytes(name)})).collect();
            json!({
                "entry": stage.entry,
                "uses": uses,
                "grid": stage.grid,
                "block": stage.workgroup,
                "dynamic_shared_bytes": stage.cuda.dynamic_shared_bytes,
            })
        })
        .collect();
    // WGSL has no options. An NVRTC that is older than the device compiles for an older architecture instead.
    let options = caps.compute_capability.map(|(major, minor)| compile::options(Arch::new(major, minor)));
    let description = json!({
        "case": case.to_string(), "target": target, "source": source, "options": options.unwrap_or_default(), "stages": stages
    });
    println!("{description}");
    Ok(())
}

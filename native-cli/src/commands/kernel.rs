//! `kernel`: final kernel sources of a case and their launches, for use elsewhere. It needs no device.

use anyhow::bail;
use clap::Args;
use parallax_cuda::compile;
use parallax_cuda::{Arch, Arithmetic};
use parallax_engine::plan::{Plan, plan};
use parallax_ir::device::typical;
use parallax_ir::{Arg, Case, Program, Stage};
use parallax_schema::case::{DType, Preset};
use parallax_schema::device::Caps;
use parallax_schema::spec::Spec;
use parallax_workloads::{parse_case, tunables};
use serde_json::{Value, json};

use crate::args::{DEVICES, Device, Native};
use crate::console;
use crate::console::{noteln, outln};
use crate::targets::{CPU, Opened, TargetError, WASM, choose};
use crate::texts::{FinalText, assembled, settled};

/// `kernel`.
#[derive(Debug, Args)]
pub struct Kernel {
    /// Case, as workload/direction/shape/dtype/variant, or the beginning of one
    pub case: String,
    /// wgpu for WGSL, cuda for CUDA C++ [default: wgpu]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    /// Value of a tunable, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Print sources, buffers and launches as JSON
    #[arg(long)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub native: Native,
}

/// Kernels of a case, with their sources.
struct Made {
    case: Case,
    dtype: DType,
    program: Program,
    texts: Vec<FinalText>,
    /// Index of the source of each stage's kernel, by stage.
    places: Vec<Option<usize>>,
}

/// Prints the sources, or sources and launches as JSON.
pub fn kernel(args: &Kernel) -> anyhow::Result<()> {
    let (target, mut typical) = match args.target.as_deref() {
        None | Some("wgpu") => ("wgpu", typical::native()),
        Some("cuda") => ("cuda", typical::cuda()),
        Some("browser") => bail!("a page assembles its kernel sources itself; they are those of --target wgpu"),
        Some(name @ (CPU | WASM)) => bail!(
            "the target {name} has no kernel sources; `parallax kernel {case} --target wgpu` prints the WGSL, --target cuda \
             the CUDA C++",
            case = args.case
        ),
        Some(other) => bail!("`{other}` has no kernel sources: choose wgpu or cuda"),
    };
    args.set.iter().try_for_each(|assignment| tunables::assign(&mut typical.tuning, assignment))?;
    let case = match &meant(&args.case, &typical)?[..] {
        [case] => case.clone(),
        several => {
            several.iter().for_each(|case| outln!("{case}"));
            bail!("`{}` begins {} cases: name one of them", args.case, several.len());
        }
    };
    let (caps, made) = match here(&case, target, args)? {
        Ok(found) => found,
        Err(why) => {
            let made = made(&case, &typical, &args.native)?;
            noteln!("{why}; the source is for a device with all features of kernels");
            (typical, made)
        }
    };
    if made.case.variant != case.variant {
        noteln!("`{}` selects `{}` here", case.variant, made.case.variant);
    }
    match args.json {
        true => {
            let arithmetic = args.native.arithmetic.unwrap_or_default();
            console::raw(&described(&made, target, &caps, arithmetic).to_string());
        }
        false => console::raw(&plain(&made.texts)),
    }
    Ok(())
}

/// Returns the kernels for this machine's device. The inner error is the reason for their absence.
fn here(case: &Case, target: &'static str, args: &Kernel) -> anyhow::Result<Result<(Caps, Made), String>> {
    let opened = match choose(Some(target), &Device::from(&args.native), &args.set) {
        Ok(choice) => choice.one().1,
        Err(absent @ TargetError::Unavailable { .. }) => return Ok(Err(absent.to_string())),
        Err(mistake) => return Err(mistake.into()),
    };
    let Opened::Here(profiler) = opened else { unreachable!("neither target is a browser") };
    let (name, caps) = (&profiler.device().name, &profiler.device().caps);
    Ok(match planned(case, caps) {
        Ok(_) => Ok((caps.clone(), made(case, caps, &args.native)?)),
        Err(why) => Err(format!("not for {name}: {why}")),
    })
}

/// Returns the case that runs on a device with these capabilities.
///
/// # Errors
/// Reason for which none runs.
fn planned(case: &Case, caps: &Caps) -> Result<Case, String> {
    let spec = Spec { case: vec![case.to_string()], ..Spec::default() };
    let Plan { cases, skips } = plan(&spec, caps).map_err(|error| error.to_string())?;
    match (cases.first(), skips.first()) {
        (Some(planned), _) => Ok(planned.runs()),
        (None, skip) => Err(skip.map_or_else(String::new, |skip| skip.reason.clone())),
    }
}

/// Returns the kernels of a case on a device with these capabilities.
fn made(case: &Case, caps: &Caps, native: &Native) -> anyhow::Result<Made> {
    let case = planned(case, caps).map_err(|why| anyhow::anyhow!("{case}: {why}"))?;
    let dtype = case.problem.dtype;
    let Some(program) = case.program(caps) else { bail!("{case} has no kernels: name another variant") };
    let program = settled(program, dtype, caps.dialect, native)?;
    let (texts, places) = assembled(&program, dtype, caps.dialect, native)?;
    Ok(Made { case, dtype, program, texts, places })
}

/// Returns the case with this string, or the cases of the full preset with this prefix.
fn meant(text: &str, caps: &Caps) -> anyhow::Result<Vec<Case>> {
    let mistake = match parse_case(text) {
        Ok(case) => return Ok(vec![case]),
        Err(mistake) => mistake,
    };
    let whole = plan(&Spec { preset: Preset::Full, ..Spec::default() }, caps)?.cases.into_iter();
    let cases: Vec<Case> =
        whole.map(|planned| planned.case).filter(|case| case.to_string().starts_with(text)).collect();
    if cases.is_empty() { Err(mistake.into()) } else { Ok(cases) }
}

fn plain(texts: &[FinalText]) -> String {
    match texts {
        [one] => one.text.clone(),
        several => {
            let titled = several.iter().map(|one| format!("// The text of {}\n{}", one.file, one.text));
            titled.collect::<Vec<_>>().join("\n")
        }
    }
}

fn described(made: &Made, target: &str, caps: &Caps, arithmetic: Arithmetic) -> Value {
    let buffers = made.case.problem.buffers();
    let bytes = |name: &str| buffers.iter().find(|b| b.name == name).map(|b| b.bytes(made.dtype).0);
    let stage = |(stage, place): (&Stage, &Option<usize>)| {
        let arg = |arg: &Arg| {
            let mut described = json!({"parameter": arg.parameter, "buffer": arg.buffer, "bytes": bytes(arg.buffer)});
            if let Some(map) = &arg.map {
                let (dims, strides, tile, swizzle) = (&map.dims, &map.strides, &map.tile, map.swizzle.bytes());
                described["tensor_map"] = json!({"dims": dims, "strides": strides, "tile": tile, "swizzle": swizzle});
            }
            described
        };
        let args: Vec<Value> = stage.args.iter().map(arg).collect();
        let mut described = json!({"label": stage.label, "entry": stage.entry(), "text": place, "args": args});
        if let Some(kernel) = stage.kernel_launch() {
            described["grid"] = json!(kernel.grid);
            described["block"] = json!(kernel.workgroup);
            described["cluster"] = json!(kernel.cuda.cluster);
            described["dynamic_shared_bytes"] = json!(kernel.cuda.dynamic_shared_bytes);
        }
        described
    };
    let stages: Vec<Value> = made.program.stages.iter().zip(&made.places).map(stage).collect();
    let texts: Vec<Value> = made.texts.iter().map(|one| json!({"file": one.file, "source": one.text})).collect();
    // WGSL has no options. An NVRTC older than the device compiles for an older architecture instead.
    let options = caps.compute_capability.map(|(major, minor)| compile::options(Arch::new(major, minor), arithmetic));
    json!({
        "case": made.case.to_string(), "target": target, "texts": texts,
        "options": options.unwrap_or_default(), "stages": stages
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_of_the_full_preset_has_a_text_or_a_reason_on_every_device() {
        let devices = [typical::native(), typical::cuda(), typical::browser(), parallax_schema::testing::caps()];
        std::thread::scope(|scope| {
            for caps in &devices {
                scope.spawn(|| every_case_has_a_text_or_a_reason(caps));
            }
        });
    }

    fn every_case_has_a_text_or_a_reason(caps: &Caps) {
        let whole = plan(&Spec { preset: Preset::Full, ..Spec::default() }, caps).expect("cases");
        let names = whole.cases.iter().map(|planned| &planned.case).chain(whole.skips.iter().map(|skip| &skip.case));
        let (mut texts, mut reasons) = (0, 0);
        for case in names {
            match made(case, caps, &Native::default()) {
                Ok(made) => {
                    assert!(made.places.iter().flatten().all(|place| !made.texts[*place].text.is_empty()), "{case}");
                    texts += 1;
                }
                Err(why) => {
                    assert!(!why.to_string().is_empty());
                    reasons += 1;
                }
            }
        }
        assert!(texts > 100 && reasons > 10, "{texts} {reasons}");
    }

    #[test]
    fn how_a_case_begins_lists_the_cases() {
        let found =
            |text: &str| meant(text, &typical::native()).map(|cases| cases.iter().map(Case::to_string).collect());
        let whole = "softmax/fwd/r4096,c1024/f32/row";
        for text in [whole, "softmax/fwd/r4096,c1024/f32/ro"] {
            let cases: Vec<String> = found(text).expect("one");
            assert_eq!(cases, [whole]);
        }
        assert!(found("softmax/").expect("several").len() > 20);
        let mistake = found("sofmax").expect_err("none").to_string();
        assert!(mistake.contains("sofmax"), "{mistake}");
    }
}

//! Program without arguments: prints the device, the plan, its expected duration, and the command that starts it.

use parallax_engine::plan::plan;
use parallax_schema::session::ExpectedDuration;

use crate::args::Common;
use crate::console::outln;
use crate::targets::{Opened, choose};

/// Shows the run that `run` would start on this machine.
///
/// # Errors
/// No device that opens, or a wrong settings file.
pub fn start(common: &Common) -> anyhow::Result<()> {
    let spec = common.spec()?;
    let choice = choose(None, &common.device, &spec.set)?;
    let (target, opened) = choice.one();
    let Opened::Here(profiler) = opened else { unreachable!("the best target is never a browser") };
    let device = profiler.device();
    let plan = plan(&spec, &device.caps)?;
    let expected = ExpectedDuration::of_run(&spec, plan.cases.len(), device.kind.is_emulated());
    outln!("Device:  {} ({}), target {target}", device.name, device.kind.name());
    outln!("Plan:    {} cases of the preset {}, {expected}", plan.cases.len(), spec.preset.name());
    outln!("");
    outln!("parallax run              check and measure them; writes to results/");
    outln!("parallax run --filter softmax --budget 5");
    outln!("parallax list             every case, and the reason of every skip");
    outln!("parallax doctor           missing parts of other targets on this machine");
    outln!("parallax --help           every command");
    Ok(())
}

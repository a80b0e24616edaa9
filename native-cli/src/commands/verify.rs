//! `verify`: checks every case once, and keeps no file.

use std::process::ExitCode;

use clap::Args;
use parallax_schema::session::Mode;

use crate::args::{Common, DEVICES, Device, RESULTS};
use crate::commands::measuring::{each_target, finish, show};
use crate::console::width;
use crate::model::FromModel;
use crate::output::Output;
use crate::settings::{CHECKING, Settings};
use crate::{files, table};

/// `verify`: options of `run`, without those of times and files.
#[derive(Debug, Args)]
pub struct Verify {
    /// cuda, wgpu, browser, cpu, wasm, all [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub settings: Settings<CHECKING>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub model: FromModel,
    /// Print machine-readable JSON on stdout, everything else on stderr
    #[arg(long, help_heading = RESULTS)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Checks, and shows the verdicts.
pub fn verify(args: &Verify) -> anyhow::Result<ExitCode> {
    // Verdicts go to the terminal only. The files of a session go to a temporary folder.
    let scratch = files::temporary_folder("parallax-verify-")?;
    let common = &Common {
        target: args.target.clone(),
        settings: args.settings.widened(),
        json: args.json,
        device: args.device.clone(),
        out: scratch.path().to_owned(),
        ..Common::default()
    };
    let mut spec = common.spec()?;
    args.model.apply(&mut spec)?;
    let measured = each_target(common, &spec, Mode::Verify, &Output::of(common), |done| {
        show(common, &table::checks(&done.run, width()))
    })?;
    finish(common, measured)
}

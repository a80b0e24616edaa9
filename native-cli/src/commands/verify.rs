//! `verify`: check every case once, and keep no file.

use std::process::ExitCode;

use anyhow::Context;
use parallax_core::measure::runner::Mode;

use crate::args::Common;
use crate::commands::measuring::{each_target, finish, show};
use crate::console::width;
use crate::output::Output;
use crate::table;

/// Check, and show the verdicts.
pub fn verify(common: &Common) -> anyhow::Result<ExitCode> {
    // Verdicts are for the eye; the files that a session keeps are not part of the bargain here.
    let scratch = tempfile::tempdir().context("no folder for temporary files")?;
    let out = Output { folder: scratch.path().to_owned(), gzip: false };
    let measured = each_target(common, &common.spec()?, Mode::Verify, &out, |done| {
        show(common, &table::checks(&done.run, width()))
    })?;
    finish(common, measured)
}

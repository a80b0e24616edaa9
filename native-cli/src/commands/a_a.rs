//! `run --a-a`: a machine against itself. Whatever differs between two runs of the same thing is noise, and what noise
//! hides is the smallest change that this machine can detect.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use parallax_core::compare::aa::a_a as judge;
use parallax_core::measure::runner::Mode;
use parallax_core::record::Run;
use parallax_core::report;

use crate::args::Common;
use crate::commands::measuring::{each_target, finish, say};
use crate::interrupts::interrupted;
use crate::output::{Output, writable_folder, write_whole};
use crate::table;

/// Run the spec so many times on every target, devices opened anew each time, and compare each run with the next.
pub fn a_a(common: &Common, runs: usize) -> anyhow::Result<ExitCode> {
    if runs < 2 {
        bail!("--a-a {runs}: comparing a machine with itself takes at least 2 runs; 20 give a good picture");
    }
    writable_folder(&common.out)?;
    let spec = common.spec()?;
    let out = Output { folder: common.out.clone(), gzip: common.trace.trace_gzip };
    let mut by_target: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for i in 1..=runs {
        for run in each_target(common, &spec, Mode::Measure, &out, |_| {})? {
            eprintln!("a/a {i} of {runs}, {}: {}", run.target, report::tally(&run));
            by_target.entry(run.target.clone()).or_default().push(run);
        }
        if interrupted() {
            break;
        }
    }
    for (target, runs) in &by_target {
        let judged = judge(runs);
        say(common, &format!("{}\n{}", report::device_line(&runs[0]), table::text(&report::a_a_table(&judged))));
        let path = common.out.join(format!("a-a-{target}.md"));
        let text = format!("{}\n\n{}", report::device_line(&runs[0]), report::a_a_table(&judged).markdown());
        write_whole(&path, &text)?;
        say(common, &format!("written: {}", path.display()));
    }
    finish(common, &by_target.into_values().flatten().collect::<Vec<_>>())
}

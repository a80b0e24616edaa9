//! `run --a-a`: compares runs of the same program on one machine. Any difference is noise. The noise determines the
//! smallest change that the machine can detect.

use std::process::ExitCode;

use anyhow::bail;
use parallax_analysis::compare::aa::a_a as judge;
use parallax_report as report;
use parallax_schema::session::Mode;

use crate::args::Common;
use crate::commands::measuring::{Measured, each_target, finish, say, show};
use crate::console::{noteln, width};
use crate::files::write_text;
use crate::interrupts::interrupted;
use crate::output::{Output, writable_folder};
use crate::table;

/// Runs the spec `runs` times on every target, with devices opened anew each time. Compares each run with the next.
pub fn a_a(common: &Common, runs: usize) -> anyhow::Result<ExitCode> {
    if runs < 2 {
        bail!("--a-a {runs}: comparing a machine with itself takes at least 2 runs; 20 give a good picture");
    }
    writable_folder(&common.out)?;
    let mut spec = common.spec()?;
    let model = common.model.apply(&mut spec)?;
    let out = Output { model, ..Output::of(common) };
    let mut all = Measured::default();
    for i in 1..=runs {
        let measured = each_target(common, &spec, Mode::Measure, &out, |_| {})?;
        for run in &measured.runs {
            noteln!("a/a {i} of {runs}, {}: {}", run.target, report::tally(run));
        }
        all = all.and(measured);
        if interrupted() {
            break;
        }
    }
    all.runs.sort_by(|a, b| a.target.cmp(&b.target));
    for runs in all.runs.chunk_by(|a, b| a.target == b.target) {
        let target = &runs[0].target;
        let judged = judge(runs);
        let mut shown = report::a_a_table(&judged);
        shown.heading.insert(0, report::device_line(&runs[0]));
        show(common, &table::text(&shown, width()));
        let path = common.out.join(format!("a-a-{target}.md"));
        write_text(&path, &shown.markdown())?;
        say(common, &format!("written: {}", path.display()));
    }
    finish(common, all)
}

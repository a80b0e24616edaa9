//! Shared parts of the commands that run cases: the loop over targets, and the exit code.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use parallax_analysis::compare::{Options, compare};
use parallax_report::{ci, comparison_table, sheet};
use parallax_schema::record::{NamedRun, Outcome, Record, Run};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;
use parallax_workloads::{Registry, parse_case};

use crate::args::Common;
use crate::console;
use crate::console::{Painted, errln, noteln, outln, width};
use crate::interrupts::{interrupted, listen_for_interrupts};
use crate::output::{Finished, Output};
use crate::session::session;
use crate::targets::{Choice, choose};
use crate::{summary, table};

/// Prints text for people on stdout, or on stderr if stdout carries machine-readable output.
pub fn say(common: &Common, text: &str) {
    if common.for_machines() { noteln!("{text}") } else { outln!("{text}") }
}

/// Prints tables for people, on the same stream as [`say`].
pub fn show(common: &Common, lines: &Painted) {
    if common.for_machines() { console::show_beside(lines) } else { console::show(lines) }
}

/// Results of the targets.
#[derive(Default)]
pub struct Measured {
    /// Runs of the targets.
    pub runs: Vec<Run>,
    /// First failure to write a part of a run to its file.
    pub failure: Option<anyhow::Error>,
}

impl Measured {
    fn take(&mut self, finished: Finished) {
        self.runs.push(finished.run);
        self.failure = self.failure.take().or(finished.failure);
    }

    /// Returns the union with later results.
    pub fn and(self, more: Measured) -> Measured {
        let runs = self.runs.into_iter().chain(more.runs).collect();
        Measured { runs, failure: self.failure.or(more.failure) }
    }
}

/// Reports the targets that do not open, for a request of all targets or of the best.
pub fn left_out(wanted: Option<&str>, choice: &Choice) {
    match wanted {
        Some(_) => choice.absent.iter().for_each(|(name, why)| errln!("target {name} is left out: {why}")),
        None => choice.tell(),
    }
}

/// Runs a mode on each requested target. A failure of one of several targets or browsers is reported and does not stop the others.
pub fn each_target(
    common: &Common,
    spec: &Spec,
    mode: Mode,
    out: &Output,
    mut done: impl FnMut(&Finished),
) -> anyhow::Result<Measured> {
    listen_for_interrupts()?;
    let all = common.target.as_deref() == Some("all");
    let choice = choose(common.target.as_deref(), &common.device, &spec.set)?;
    left_out(common.target.as_deref(), &choice);
    let several = choice.reached.len() + choice.absent.len() > 1 && common.target.is_some();
    let passed_over = if all { None } else { choice.passed_over() };
    let mut measured = Measured::default();
    for (name, target) in choice.reached {
        match session((name, target), passed_over.as_deref(), spec, mode, &common.device, out) {
            Ok(file) => {
                let finished = file.finish()?;
                done(&finished);
                measured.take(finished);
            }
            Err(error) if several => errln!("target {name} is left out: {}", console::mistake(&error)),
            Err(error) => return Err(error),
        }
        if interrupted() {
            break;
        }
    }
    if measured.runs.is_empty() {
        bail!("no target could run; `parallax devices` names the missing part of each");
    }
    Ok(measured)
}

/// Shows a comparison of the runs of each target with the first, if there are several. `of` says which differ, as in `device`.
pub fn compare_within_targets(common: &Common, names: &[String], runs: &[Run], of: &str) {
    for runs in by_target(names, runs).iter().filter(|runs| runs.len() > 1) {
        say(common, &format!("\ntarget {}, each {of} against the first:", runs[0].run.target));
        match compare(runs, &Options::default()) {
            Ok(comparison) => show(common, &table::text(&comparison_table(&comparison), width())),
            Err(why) => say(common, &why.to_string()),
        }
    }
}

/// Groups named runs by target.
fn by_target(names: &[String], runs: &[Run]) -> Vec<Vec<NamedRun>> {
    let mut targets: Vec<Vec<NamedRun>> = Vec::new();
    for (name, run) in names.iter().zip(runs) {
        let named = NamedRun::new(name.clone(), run.clone());
        match targets.iter_mut().find(|others| others[0].run.target == run.target) {
            Some(others) => others.push(named),
            None => targets.push(vec![named]),
        }
    }
    targets
}

/// Prints machine-readable output and returns the exit code. The code is 1 if a case was wrong, failed, was impossibly
/// fast or was not reached. It is also 1 if a named case ran on no target. A file that was not written is an error, and
/// so is a run in which every case was skipped.
pub fn finish(common: &Common, measured: Measured) -> anyhow::Result<ExitCode> {
    let runs = &measured.runs;
    if common.json {
        console::raw(&serde_json::to_string(runs)?);
    }
    let named = || -> Vec<NamedRun> { runs.iter().map(|run| NamedRun::new(run.target.clone(), run.clone())).collect() };
    if common.csv {
        console::bytes(sheet::csv(&sheet::rows(&named(), None)).as_bytes());
    }
    if common.summary {
        summary::append(&ci::run_summary(&Registry, &named()))?;
    }
    if let Some(failure) = measured.failure {
        return Err(failure);
    }
    let bad = |run: &Run| {
        run.interrupted.is_some() || run.records.iter().any(|r| matches!(r.verdict(), "FAIL" | "ERROR" | "impossible"))
    };
    let unmet = named_and_skipped(runs);
    for (case, reason) in &unmet {
        errln!("{case} was named with --case and did not run: {reason}");
    }
    if unmet.is_empty()
        && let Some(skipped) = nothing_ran(runs)
    {
        bail!("{skipped}");
    }
    Ok(if !unmet.is_empty() || runs.iter().any(bad) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Returns the number of skipped cases and their most common reason, if all cases were skipped.
fn nothing_ran(runs: &[Run]) -> Option<String> {
    if runs.iter().any(|run| run.interrupted.is_some()) {
        return None;
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for record in runs.iter().flat_map(|run| &run.records) {
        let Outcome::Skipped { reason } = &record.outcome else { return None };
        *reasons.entry(reason).or_default() += 1;
    }
    let (commonest, _) = reasons.iter().max_by_key(|(_, count)| **count)?;
    let whole: usize = reasons.values().sum();
    let others =
        if reasons.len() > 1 { "; `parallax list` with the same settings shows the other reasons" } else { "" };
    let skipped = if whole == 1 { "1 case was".to_owned() } else { format!("{whole} cases were") };
    Some(format!("nothing could run: {skipped} skipped ({commonest}){others}"))
}

/// Returns the named cases that no target ran, with the first reason of each. A preset may contain cases beyond a
/// device's abilities. A user with a named case wants that case, and a script would take a plain skip for success.
fn named_and_skipped(runs: &[Run]) -> Vec<(&str, &str)> {
    let mut unmet: Vec<(&str, &str)> = Vec::new();
    let named = |run: &Run| -> Vec<String> {
        run.spec.case.iter().filter_map(|text| parse_case(text).ok()).map(|case| case.to_string()).collect()
    };
    let records = |run| {
        let named = named(run);
        run.records.iter().filter(move |record| named.contains(&record.case))
    };
    for record in runs.iter().flat_map(records) {
        let Outcome::Skipped { reason } = &record.outcome else { continue };
        let ran = |r: &Record| r.case == record.case && !matches!(r.outcome, Outcome::Skipped { .. });
        let known = unmet.iter().any(|(case, _)| *case == record.case);
        if !known && !runs.iter().flat_map(|run| &run.records).any(ran) {
            unmet.push((&record.case, reason));
        }
    }
    unmet
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_engine::plan::Plan;
    use parallax_schema::record::Suite;
    use parallax_testing::mock::{Fault, Mock};

    #[test]
    fn runs_are_held_against_those_of_their_target() {
        let (mock, spec) = (Mock::new(|_| 1.0, Fault::None), Spec::default());
        let suite = || Suite { version: String::new(), commit: String::new() };
        let runs = ["cuda", "wgpu", "cuda", "wgpu"].map(|t| Plan::default().begin(t, suite(), &mock, &spec));
        let names = ["device 0", "device 0", "device 1", "device 1"].map(str::to_owned);
        let grouped = by_target(&names, &runs);
        let shown: Vec<Vec<&str>> =
            grouped.iter().map(|g| g.iter().map(|NamedRun { name, .. }| name.as_str()).collect()).collect();
        assert_eq!(shown, [["device 0", "device 1"], ["device 0", "device 1"]]);
        assert!(grouped.iter().all(|g| g.iter().all(|NamedRun { run, .. }| run.target == g[0].run.target)));
    }
}

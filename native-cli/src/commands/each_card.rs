//! `run --device all`: measures every GPU in sequence, each into a file of its own. Compares the others with the first,
//! to find differences between them.

use std::process::ExitCode;

use anyhow::bail;
use parallax_analysis::compare::{Options, compare};
use parallax_report as report;
use parallax_schema::record::{NamedRun, Run};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;

use crate::args::Common;
use crate::cards::{Card, cards};
use crate::commands::measuring::{Measured, each_target, finish, say, show};
use crate::commands::scaling;
use crate::console::{noteln, width};
use crate::interrupts::interrupted;
use crate::output::Output;
use crate::table;

/// Value of `--device` for all GPUs.
pub const ALL: &str = "all";

/// Measures every GPU, and compares those of one target.
pub fn each_card(common: &Common, spec: &Spec, out: &Output) -> anyhow::Result<ExitCode> {
    let cards = cards();
    let numbers = real(&cards);
    if numbers.is_empty() {
        bail!("--device all: there is no device; `parallax doctor` names the missing part of each target");
    }
    let mut all = Measured::default();
    let mut names = Vec::new();
    for number in numbers {
        noteln!("device {number}: {}", cards[number].words());
        let mut common = common.clone();
        common.device.native.device = Some(number.to_string());
        let measured = each_target(&common, spec, Mode::Measure, out, |done| {
            show(&common, &table::run(&done.run, width()));
            say(&common, &done.paths());
        })?;
        scaling::tell(&common, &measured.runs, None);
        names.extend(measured.runs.iter().map(|_| format!("device {number}")));
        all = all.and(measured);
        if interrupted() {
            break;
        }
    }
    for runs in by_target(&names, &all.runs).iter().filter(|runs| runs.len() > 1) {
        say(common, &format!("\ntarget {}, each device against the first:", runs[0].run.target));
        match compare(runs, &Options::default()) {
            Ok(comparison) => show(common, &table::text(&report::comparison_table(&comparison), width())),
            Err(why) => say(common, &why.to_string()),
        }
    }
    finish(common, all)
}

/// Returns the numbers of the GPUs to measure: all that are no emulation, or all devices if none is real.
fn real(cards: &[Card]) -> Vec<usize> {
    let real: Vec<usize> = (0..cards.len()).filter(|number| !cards[*number].kind.is_emulated()).collect();
    if real.is_empty() { (0..cards.len()).collect() } else { real }
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

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_engine::plan::Plan;
    use parallax_schema::device::DeviceKind;
    use parallax_schema::record::Suite;
    use parallax_testing::mock::{Fault, Mock};

    #[test]
    fn what_is_emulated_runs_only_where_nothing_else_is() {
        let card = |kind| Card {
            name: "X".to_owned(),
            kind,
            identity: Default::default(),
            cuda: None,
            wgpu: Some(0),
            doubt: false,
        };
        let of = |kinds: &[DeviceKind]| real(&kinds.iter().map(|kind| card(*kind)).collect::<Vec<_>>());
        use DeviceKind::{Discrete, Integrated, Software};
        assert_eq!(of(&[Discrete, Integrated, Software]), [0, 1]);
        assert_eq!(of(&[Software]), [0]);
        assert_eq!(of(&[]), [0; 0]);
    }

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

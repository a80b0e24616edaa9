//! `run --device all`: measures every GPU in sequence, each into a file of its own. Compares the others with the first,
//! to find differences between them.

use std::process::ExitCode;

use anyhow::bail;
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;

use crate::args::Common;
use crate::cards::{Card, cards};
use crate::commands::measuring::{Measured, compare_within_targets, each_target, finish, say, show};
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
    compare_within_targets(common, &names, &all.runs, "device");
    finish(common, all)
}

/// Returns the numbers of the GPUs to measure: all that are no emulation, or all devices if none is real.
fn real(cards: &[Card]) -> Vec<usize> {
    let real: Vec<usize> = (0..cards.len()).filter(|number| !cards[*number].kind.is_emulated()).collect();
    if real.is_empty() { (0..cards.len()).collect() } else { real }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::device::DeviceKind;

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
}

//! Targets of one GPU: their distance from the hardware, and the check that runs are of one GPU.

use std::cmp::Reverse;

use parallax_schema::device::BrowserMode;
use parallax_schema::record::{NamedRun, Route, Run};

use crate::compare::identity::{same_card, same_device};

/// Targets in the order of their distance from the hardware: first those of a GPU, then those of a processor. Both kinds meet only
/// on a device that is both, by name.
const TARGETS: [&str; 5] = ["cuda", "wgpu", "browser", "cpu", "wasm"];

/// Distance of a route from the hardware.
pub type Distance = (usize, bool, bool, Reverse<Option<BrowserMode>>);

/// Returns the distance of a run from the hardware, by its target. Kernels as they are compiled by default are nearer than others,
/// and so are Chromium's browsers and higher browser modes.
pub fn away(run: &Run) -> Distance {
    let Route { target, browser, reach, .. } = run.route();
    (distance(&target), !run.compiled_as_usual(), browser.is_some(), Reverse(reach))
}

/// Returns the distance of a target from the hardware; an unknown target is farther than all others.
pub fn distance(target: &str) -> usize {
    TARGETS.iter().position(|known| *known == target).unwrap_or(TARGETS.len())
}

/// Returns whether a target runs on a processor and not on a GPU.
pub(super) fn on_the_processor(target: &str) -> bool {
    ["cpu", "wasm"].contains(&target)
}

/// Error of runs that are not of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaxError {
    /// Fewer than two runs.
    #[error("the portability tax takes runs of at least two targets, not {0}")]
    TooFew(usize),
    /// Two runs of one target.
    #[error("two runs of target {0}: the portability tax compares targets; give one run of each")]
    Twice(String),
    /// Different cards, by their addresses.
    #[error(
        "{a} ran on {card_a} and {b} on {card_b}, another card: the portability tax takes runs of one; choose it for every \
         target with --device"
    )]
    OtherCards {
        /// Name of one run.
        a: String,
        /// Card of that run.
        card_a: String,
        /// Name of another run.
        b: String,
        /// Card of that run.
        card_b: String,
    },
    /// Different devices, by name.
    #[error(
        "{a} ran on `{device_a}` and {b} on `{device_b}`: the portability tax takes runs of one GPU; if the browser \
         hides the name of one, add --same-gpu"
    )]
    DifferentGpus {
        /// Name of one run.
        a: String,
        /// Device of that run.
        device_a: String,
        /// Name of another run.
        b: String,
        /// Device of that run.
        device_b: String,
    },
    /// No common case.
    #[error("no case has a time on {0} and on another target, with caches in the same state")]
    NothingInCommon(String),
    /// No CubeCL kernel was measured.
    #[error(
        "no case of the variant `cube` has a time in these runs: measure some with --variant cube beside the others"
    )]
    NoOneSource,
}

/// Checks that the runs are of one GPU, each with another target.
pub(super) fn one_gpu(runs: &[&NamedRun], same_gpu: bool) -> Result<(), TaxError> {
    if runs.len() < 2 {
        return Err(TaxError::TooFew(runs.len()));
    }
    let NamedRun { name: first_name, run: first } = runs[0];
    for (i, NamedRun { name, run }) in runs.iter().enumerate().skip(1) {
        if runs[..i].iter().any(|NamedRun { run: other, .. }| other.way() == run.way()) {
            return Err(TaxError::Twice(run.way()));
        }
        if same_card(first, run) == Some(false) {
            let address = |run: &Run| {
                let identity = &run.device().identity;
                let known = identity.pci.clone().or_else(|| identity.uuid.clone());
                format!("{} ({})", run.device().name, known.unwrap_or_else(|| "another model".to_owned()))
            };
            return Err(TaxError::OtherCards {
                a: first_name.clone(),
                card_a: address(first),
                b: name.clone(),
                card_b: address(run),
            });
        }
        if !same_gpu && !same_device(first, run) {
            return Err(TaxError::DifferentGpus {
                a: first_name.clone(),
                device_a: first.device().name.clone(),
                b: name.clone(),
                device_b: run.device().name.clone(),
            });
        }
    }
    Ok(())
}

/// Returns a remark if only names show that the runs are of one card.
pub(super) fn by_name_only(runs: &[NamedRun]) -> Option<String> {
    let NamedRun { run: first, .. } = &runs[0];
    // An emulated GPU exists once.
    let may_differ = |run: &Run| !run.device().kind.is_emulated() && same_card(first, run).is_none();
    let doubtful: Vec<&str> = runs
        .iter()
        .skip(1)
        .filter(|NamedRun { run, .. }| may_differ(run))
        .map(|NamedRun { name, .. }| name.as_str())
        .collect();
    let names = doubtful.join(" and ");
    (!doubtful.is_empty())
        .then(|| format!("the device's name alone shows that {names} ran on the same card as {}", runs[0].name))
}

//! Checks of settings against the workloads: cases, variants and tunables.

use std::collections::BTreeSet;

use crate::plan::SpecError;
use crate::suite::{CPU_VARIANT, Case, Tuning, all, named};

/// Whether this program has the workloads that cases, variants and tunables are checked against. A program without them, such as
/// a page's own, accepts these unchecked; the planning program has them.
const HAS_WORKLOADS: bool = cfg!(feature = "compute");

/// Returns a value in its stored form, after the check.
pub(super) fn checked(value: &str, check: fn(&str) -> Result<String, SpecError>) -> Result<String, SpecError> {
    if HAS_WORKLOADS { check(value) } else { Ok(value.to_owned()) }
}

pub(super) fn case(value: &str) -> Result<String, SpecError> {
    Ok(value.parse::<Case>()?.to_string())
}

pub(super) fn variant(value: &str) -> Result<String, SpecError> {
    Ok(named("variant", value, variants().into_iter().map(|known| (known, known)))?.to_owned())
}

pub(super) fn assignment(value: &str) -> Result<String, SpecError> {
    Tuning::default().assign(value)?;
    Ok(value.to_owned())
}

/// Returns every variant of every workload, in alphabetical order; empty without the workloads.
pub(super) fn variants() -> Vec<&'static str> {
    if !HAS_WORKLOADS {
        return Vec::new();
    }
    let known = all().iter().flat_map(|w| &w.forms).flat_map(|f| &f.variants).map(|v| v.name);
    known.chain([CPU_VARIANT]).collect::<BTreeSet<_>>().into_iter().collect()
}

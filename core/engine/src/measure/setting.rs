//! State that the cases of a run share.

use std::collections::BTreeMap;

use parallax_schema::record::{Baseline, Timing};

use crate::measure::reference_kernel::ReferenceKernel;
use crate::measure::sampler::TrustedClock;

/// State that all cases of a run share.
pub(super) struct Setting {
    pub(super) clock: TrustedClock,
    pub(super) baseline: Baseline,
    /// Whether the ceilings are requested and not measured so far.
    pub(super) ceilings_due: bool,
    pub(super) reference_kernel: Option<ReferenceKernel>,
    /// Bytes that one group may hold on the device.
    pub(super) room: u64,
    /// Power at rest in watts, or the reason of its absence; `None` where energy was not asked for.
    pub(super) energy: Option<Result<f64, String>>,
    /// Timings of cases that an earlier part of the run did not finish.
    pub(super) sampled: BTreeMap<String, Timing>,
}

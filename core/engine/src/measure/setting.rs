//! Mode of a run, and the state that its cases share.

use std::collections::BTreeMap;

use parallax_schema::record::{Baseline, Timing};
use serde::{Deserialize, Serialize};

use crate::measure::reference_kernel::ReferenceKernel;
use crate::measure::sampler::TrustedClock;

/// Work per case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Check it once.
    Verify,
    /// Check it, time it, check it again.
    Measure,
    /// As [`Mode::Measure`]; a case that is bound by launching is also timed side by side in a cheaper launch method.
    Profile,
}

/// State that all cases of a run share.
pub(super) struct Setting {
    pub(super) clock: TrustedClock,
    pub(super) baseline: Baseline,
    pub(super) reference_kernel: Option<ReferenceKernel>,
    /// Bytes that one group may hold on the device.
    pub(super) room: u64,
    /// Timings of cases that an earlier part of the run did not finish.
    pub(super) sampled: BTreeMap<String, Timing>,
}

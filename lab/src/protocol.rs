//! What page and measuring say to each other, wherever measuring is.

use std::collections::BTreeMap;

use parallax_core::device::{ClockInfo, DeviceInfo};
use parallax_core::measure::runner::{Mode, RunEnd, SoFar};
use parallax_core::plan::{Outline, Spec, Unplanned};
use parallax_core::record::Event;
use parallax_core::report::Known;
use parallax_core::suite::Tuning;
use parallax_core::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::way::Way;

/// Kernel texts by file name that stand before the program's own.
pub type OtherTexts = BTreeMap<String, String>;

/// The page's part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// Reach a device.
    Open(Ask),
    /// Plan what was asked for, in place of whatever is planned.
    Plan {
        /// What tells it from those before it.
        number: u32,
        /// What was asked for.
        spec: Box<Spec>,
    },
    /// Measure on it.
    Run(Box<Job>),
    /// End the run soon.
    Stop,
    /// The tab went out of sight, or came back.
    Sight {
        /// Whether it cannot be seen.
        hidden: bool,
    },
    /// Let the device go.
    Close,
}

/// What to reach it with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ask {
    /// The way.
    pub way: Way,
    /// Texts that stand before the program's own.
    pub texts: OtherTexts,
    /// With CubeCL's compilers.
    pub cube: bool,
}

/// What fetching CubeCL's compilers took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compilers {
    /// What was sent of the program, compressed where the server does that; nothing where the browser does not tell.
    pub sent: Bytes,
    /// Its size.
    pub bytes: Bytes,
    /// Until it was ready to be used.
    pub milliseconds: f64,
}

/// What was asked for, planned on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// What was asked for, as workloads, variants and tunables spell it.
    pub spec: Spec,
    /// What its variants leave open, on this device.
    pub tuning: Tuning,
    /// The plan.
    pub outline: Outline,
}

/// What to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// What was asked for, as a plan has it; that follows from it and the device.
    pub spec: Spec,
    /// What to do with each case.
    pub mode: Mode,
    /// What an earlier device has done of it.
    pub so_far: SoFar,
}

/// The measuring side's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Word {
    /// It takes orders.
    Ready {
        /// Whether the browser offers WebGPU there.
        webgpu: bool,
    },
    /// There is a device.
    Opened {
        /// The device.
        device: Box<DeviceInfo>,
        /// Its clock.
        clock: ClockInfo,
        /// What was fetched for it.
        compilers: Option<Compilers>,
    },
    /// There is none, for this reason.
    Unavailable(String),
    /// What was asked for comes to this, or to nothing.
    Planned {
        /// The order's.
        number: u32,
        /// The plan, or why there is none.
        planned: Result<Box<Planned>, Unplanned>,
    },
    /// Something happened in the run; of a record, what its workload says.
    Event(Box<Event>, Option<Known>),
    /// The run ended.
    Ended(RunEnd),
    /// It hit a bug of its own, and says nothing more.
    Broken(String),
}

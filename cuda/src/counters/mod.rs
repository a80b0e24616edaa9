//! Hardware counters of the stages of a case, by the range profiler of CUPTI.
//!
//! A device reads few counters at once, so the stages execute in several passes. A pass first restores the buffers that executions
//! change, and executes the case once, as before timed executions. Then each stage is a range of its own. The counted execution
//! takes part in no timing: the ranges serialise the stages.

mod api;
mod metrics;
mod session;

use std::time::Instant;

use parallax_ir::device::BackendError;
use parallax_schema::record::{CounterFigures, StageCounters};

use self::api::api;
use self::session::{Host, Ranges};
use crate::events::since;
use crate::prepared::PreparedCase;

/// Number of passes after which the range profiler is not believed.
const MOST_PASSES: u32 = 200;

/// Returns the hardware counters of every stage.
///
/// # Errors
/// [`BackendError::Unsupported`] without the profiler, or where it refuses; a driver error.
pub(crate) fn count(case: &mut PreparedCase) -> Result<CounterFigures, BackendError> {
    let began = Instant::now();
    let refused = BackendError::Unsupported;
    let host = Host::new(api().map_err(refused)?, case.context.cu_device()).map_err(refused)?;
    let stages = case.steps(0).len();
    let mut ranges = Ranges::enable(&host, &case.context, stages).map_err(refused)?;
    let mut passes = 0;
    loop {
        pass(case, &ranges)?;
        passes += 1;
        if ranges.stop().map_err(refused)? {
            break;
        }
        if passes == MOST_PASSES {
            return Err(refused(format!("CUPTI asks for more than {MOST_PASSES} passes")));
        }
    }
    let values = ranges.values(stages).map_err(refused)?;
    let stages = case.steps(0).iter().zip(values);
    let stages = stages.map(|(step, values)| StageCounters { stage: step.label.to_string(), values }).collect();
    Ok(CounterFigures { passes, took: since(began), stages })
}

/// Executes every stage once, each in a range.
fn pass(case: &mut PreparedCase, ranges: &Ranges) -> Result<(), BackendError> {
    let refused = BackendError::Unsupported;
    case.restored()?;
    let [first, counted] = [case.rotation.take(), case.rotation.take()];
    let warmed = case.queue(first);
    case.wait().and(warmed)?;
    ranges.start().map_err(refused)?;
    for (number, step) in case.steps(counted).iter().enumerate() {
        ranges.push(number).map_err(refused)?;
        let launched = step.launch(&case.stream);
        // Wait also after a failed launch: no work may be in flight when the buffers are dropped.
        case.wait().and(launched)?;
        ranges.pop().map_err(refused)?;
    }
    Ok(())
}

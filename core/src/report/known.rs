//! What a record's workload says of it. A program without the workloads is told it by one that has them.

use serde::{Deserialize, Serialize};

use super::advice::{Component, stages};
use crate::plan::Cache;
use crate::record::roofline::Ceilings;
use crate::record::{Record, Run};
use crate::suite::{Caps, Case, OpSpec, Rate, find};

/// What a record is held against.
#[derive(Clone, Copy)]
pub struct DeviceContext<'a> {
    /// The device.
    pub caps: &'a Caps,
    /// What it can do at best, where that was measured.
    pub ceilings: Option<&'a Ceilings>,
    /// Where data lay.
    pub cache: Cache,
}

impl DeviceContext<'_> {
    /// Of a run.
    pub fn of(run: &Run) -> DeviceContext<'_> {
        let ceilings = run.baseline.as_ref().map(|baseline| &baseline.ceilings);
        DeviceContext { caps: &run.device().caps, ceilings, cache: run.spec.cache }
    }
}

/// What its workload says of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseInfo {
    /// What its speed is told in; a workload of a newer version does not say.
    pub rate: Option<Rate>,
    /// Whether it is one of those that find the ceilings.
    pub probe: bool,
    /// Its stages in order, those that belong together as one.
    pub stages: Vec<Component>,
}

impl CaseInfo {
    /// Of a record.
    pub fn of(record: &Record, ground: DeviceContext) -> CaseInfo {
        let stages = record.measured().map(|measured| stages(record, measured, ground));
        CaseInfo {
            rate: rate_of(record),
            probe: record.case.parse::<Case>().is_ok_and(|case| !case.problem.workload.probes.is_empty()),
            stages: stages.unwrap_or_default(),
        }
    }
}

/// What the speed of a record's workload is told in.
pub(super) fn rate_of(record: &Record) -> Option<Rate> {
    let direction = |form: &&OpSpec| form.direction.name() == record.parts.direction;
    Some(find(&record.parts.workload)?.forms.iter().find(direction)?.rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{run, spread};

    #[test]
    fn what_is_known_survives_being_told() {
        let cases = ["copy/fwd/n1000/f32/vec4", "attention/fwd/b1,h1,s8,d8/f32/flash", "other/fwd/n1/f32/any"];
        let run = run("cuda", "X", &cases.map(|case| (case, spread(12_000.0, 0.002, 40))));
        let known: Vec<CaseInfo> =
            run.records.iter().map(|record| CaseInfo::of(record, DeviceContext::of(&run))).collect();
        let rates: Vec<Option<Rate>> = known.iter().map(|known| known.rate).collect();
        assert_eq!(rates, [Some(Rate::Bytes), Some(Rate::Flops), None]);
        assert_eq!(known.iter().map(|known| known.probe).collect::<Vec<_>>(), [true, false, false]);
        let told = serde_json::to_string(&known).expect("JSON");
        assert_eq!(serde_json::from_str::<Vec<CaseInfo>>(&told).expect("read"), known);
    }
}

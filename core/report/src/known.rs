//! Properties of a record that come from its workload. A program with the workloads passes them to one without.

use parallax_ir::OpSpec;
use parallax_schema::case::Rate;
use parallax_schema::device::Caps;
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::{Record, Run};
use parallax_schema::spec::Cache;
use parallax_workloads::{find, parse_case};
use serde::{Deserialize, Serialize};

use super::advice::{Component, stages};

/// Device properties for the analysis of a record.
#[derive(Clone, Copy)]
pub struct DeviceContext<'a> {
    /// Capabilities of the device.
    pub caps: &'a Caps,
    /// Ceilings of the device, if they were measured.
    pub ceilings: Option<&'a Ceilings>,
    /// State of the caches.
    pub cache: Cache,
}

impl DeviceContext<'_> {
    /// Returns the context of a run.
    pub fn of(run: &Run) -> DeviceContext<'_> {
        let ceilings = run.baseline.as_ref().map(|baseline| &baseline.ceilings);
        DeviceContext { caps: &run.device().caps, ceilings, cache: run.spec.cache }
    }
}

/// Properties of a record that come from its workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseInfo {
    /// Unit of its speed; absent for a workload of a newer version.
    pub rate: Option<Rate>,
    /// Whether the case is a probe of the ceilings.
    pub probe: bool,
    /// Stages in order, each group of stages as one component.
    pub stages: Vec<Component>,
}

impl CaseInfo {
    /// Returns the properties of a record.
    pub fn of(record: &Record, ground: DeviceContext) -> CaseInfo {
        let stages = record.measured().map(|measured| stages(record, measured, ground));
        CaseInfo {
            rate: rate_of(record),
            probe: parse_case(&record.case).is_ok_and(|case| !case.problem.workload.probes.is_empty()),
            stages: stages.unwrap_or_default(),
        }
    }
}

/// Returns the unit of speed of a record's workload.
pub(super) fn rate_of(record: &Record) -> Option<Rate> {
    let direction = |form: &&OpSpec| form.direction.name() == record.parts.direction;
    Some(find(&record.parts.workload)?.forms.iter().find(direction)?.rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{run, spread};

    #[test]
    fn facts_survive_json() {
        let cases = ["copy/fwd/n1000/f32/vec4", "attention/fwd/b1,h1,s8,d8/f32/flash", "other/fwd/n1/f32/any"];
        let run = run("cuda", "X", &cases.map(|case| (case, spread(12_000.0, 0.002, 40))));
        let known: Vec<CaseInfo> =
            run.records.iter().map(|record| CaseInfo::of(record, DeviceContext::of(&run))).collect();
        let rates: Vec<Option<Rate>> = known.iter().map(|known| known.rate).collect();
        assert_eq!(rates, [Some(Rate::Bytes), Some(Rate::Flops), None]);
        assert_eq!(known.iter().map(|known| known.probe).collect::<Vec<_>>(), [true, false, false]);
        let text = serde_json::to_string(&known).expect("JSON");
        assert_eq!(serde_json::from_str::<Vec<CaseInfo>>(&text).expect("read"), known);
    }
}

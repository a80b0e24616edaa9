//! Properties of a record that come from its workload. A program with the workloads passes them to one without.

use parallax_schema::case::Rate;
use parallax_schema::catalog::Catalog;
use parallax_schema::device::Caps;
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::{Record, Run};
use parallax_schema::spec::Cache;
use serde::{Deserialize, Serialize};

use super::advice::{Component, stages};

/// Device properties for the analysis of a record.
#[derive(Clone, Copy)]
pub struct DeviceContext<'a> {
    /// Source of facts about the run's cases.
    pub catalog: &'a dyn Catalog,
    /// Capabilities of the device.
    pub caps: &'a Caps,
    /// Ceilings of the device, if they were measured.
    pub ceilings: Option<&'a Ceilings>,
    /// State of the caches.
    pub cache: Cache,
}

impl<'a> DeviceContext<'a> {
    /// Returns the context of a run.
    pub fn new(catalog: &'a dyn Catalog, run: &'a Run) -> DeviceContext<'a> {
        let ceilings = run.baseline.as_ref().map(|baseline| &baseline.ceilings);
        DeviceContext { catalog, caps: &run.device().caps, ceilings, cache: run.spec.cache }
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
            rate: rate_of(ground.catalog, record),
            probe: ground.catalog.case(&record.case).is_some_and(|facts| facts.probe),
            stages: stages.unwrap_or_default(),
        }
    }
}

/// Returns the unit of speed of a record's workload.
pub(super) fn rate_of(catalog: &dyn Catalog, record: &Record) -> Option<Rate> {
    catalog.rate(&record.parts.workload, &record.parts.direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

    #[test]
    fn facts_survive_json() {
        let cases = ["copy/fwd/n1000/f32/vec4", "attention/fwd/b1,h1,s8,d8/f32/flash", "other/fwd/n1/f32/any"];
        let run = run("cuda", "X", &cases.map(|case| (case, spread(12_000.0, 0.002, 40))));
        let known: Vec<CaseInfo> =
            run.records.iter().map(|record| CaseInfo::of(record, DeviceContext::new(&Registry, &run))).collect();
        let rates: Vec<Option<Rate>> = known.iter().map(|known| known.rate).collect();
        assert_eq!(rates, [Some(Rate::Bytes), Some(Rate::Flops), None]);
        assert_eq!(known.iter().map(|known| known.probe).collect::<Vec<_>>(), [true, false, false]);
        let text = serde_json::to_string(&known).expect("JSON");
        assert_eq!(serde_json::from_str::<Vec<CaseInfo>>(&text).expect("read"), known);
    }
}

//! Hardware counters of a case: values for each of its stages, from executions that no timing includes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Hardware counters of a case, or the reason of their absence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Counters {
    /// The values.
    Measured(Box<CounterFigures>),
    /// The reason of their absence.
    Absent(String),
}

/// Values of all counters. A device reads some of them at once, so the stages execute in several passes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CounterFigures {
    /// Number of passes. Each executes every stage once, on restored inputs.
    pub passes: u32,
    /// Host time of the passes, with their set-up.
    pub took: Nanos,
    /// Stages in order.
    pub stages: Vec<StageCounters>,
}

/// Values of one stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageCounters {
    /// Label of the stage.
    pub stage: String,
    /// Values by the names of [`COUNTERS`]. Counters that the device lacks, and ratios of nothing to nothing, are absent.
    pub values: BTreeMap<String, f64>,
}

/// Counter with its name in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Name.
    pub name: &'static str,
    /// Meaning, with the unit.
    pub about: &'static str,
}

const fn counter(name: &'static str, about: &'static str) -> Counter {
    Counter { name, about }
}

/// Prefix of the names of pipes, with the share of cycles in which a pipe is busy.
pub const PIPE: &str = "pipe_";
/// Prefix of the names of instruction counts by pipe.
const MIX: &str = "instructions_";
/// Prefix of the names of reasons for which warps wait.
pub const STALL: &str = "stall_";
/// Value of [`STALL`] that is no wait: the warp issues an instruction.
const ISSUING: &str = "stall_selected";

/// Every counter.
pub const COUNTERS: &[Counter] = &[
    counter("dram_read", "bytes read from device memory"),
    counter("dram_written", "bytes written to device memory"),
    counter("dram_busy", "share of the peak rate of device memory"),
    counter("l2_bytes", "bytes through the L2 cache"),
    counter("l2_hits", "share of L2 sectors that were in the cache"),
    counter("l1_bytes", "bytes through the L1 caches"),
    counter("l1_hits", "share of L1 sectors that were in the cache"),
    counter("load_sectors", "sectors of 32 bytes per load of a warp from global memory"),
    counter("store_sectors", "sectors of 32 bytes per store of a warp to global memory"),
    counter("shared_wavefronts", "passes of loads and stores through shared memory"),
    counter("shared_conflicts", "additional passes because of bank conflicts"),
    counter("local_loaded", "bytes loaded from local memory: spilled registers, and arrays with computed indices"),
    counter("local_stored", "bytes stored to local memory"),
    counter("instructions", "instructions of warps"),
    counter("issue_slots", "share of active cycles with an issued instruction, of one per scheduler"),
    counter("occupancy", "share of the slots of warps that were filled, over active cycles"),
    counter("pipe_tensor", "share of active cycles in which the tensor cores compute"),
    counter("pipe_fma", "share of active cycles in which the pipe for f32 products and sums is busy"),
    counter("pipe_alu", "share of active cycles in which the pipe for integers and comparisons is busy"),
    counter("pipe_fp64", "share of active cycles in which the pipe for f64 is busy"),
    counter("pipe_xu", "share of the issue rate of the pipe for exponentials, roots and conversions"),
    counter("pipe_lsu", "share of the issue rate of the pipe for loads and stores"),
    counter("instructions_tensor", "instructions of warps on the tensor cores"),
    counter("instructions_fma", "instructions of warps on the pipe for f32 products and sums"),
    counter("instructions_alu", "instructions of warps on the pipe for integers and comparisons"),
    counter("instructions_xu", "instructions of warps on the pipe for exponentials, roots and conversions"),
    counter("instructions_lsu", "instructions of warps on the pipe for loads and stores"),
    counter("stall_long_scoreboard", "warps that wait for global or local memory, per issued instruction"),
    counter("stall_short_scoreboard", "warps that wait for shared memory or for the pipe xu, per issued instruction"),
    counter("stall_barrier", "warps that wait at a barrier of their block, per issued instruction"),
    counter("stall_membar", "warps that wait at a memory fence, per issued instruction"),
    counter("stall_math_pipe_throttle", "warps that wait for a busy arithmetic pipe, per issued instruction"),
    counter("stall_mio_throttle", "warps that wait for the full queue of shared memory, per issued instruction"),
    counter("stall_lg_throttle", "warps that wait for the full queue of global memory, per issued instruction"),
    counter("stall_tex_throttle", "warps that wait for the full queue of textures, per issued instruction"),
    counter("stall_gmma", "warps that wait for products of warpgroups, per issued instruction"),
    counter("stall_wait", "warps that wait for a fixed latency, per issued instruction"),
    counter("stall_no_instruction", "warps that wait for their next instruction, per issued instruction"),
    counter("stall_branch_resolving", "warps that wait for the target of a branch, per issued instruction"),
    counter("stall_imc_miss", "warps that wait for the constant cache, per issued instruction"),
    counter("stall_dispatch_stall", "warps that wait for the dispatcher, per issued instruction"),
    counter("stall_drain", "warps that wait for their stores at the end, per issued instruction"),
    counter("stall_sleeping", "warps that sleep, per issued instruction"),
    counter("stall_not_selected", "warps that are ready while another issues, per issued instruction"),
    counter(ISSUING, "warps that issue, per issued instruction"),
];

impl StageCounters {
    /// Returns the value of a counter.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Returns the bytes between the device and its memory, in both directions.
    pub fn dram_bytes(&self) -> Option<f64> {
        Some(self.value("dram_read")? + self.value("dram_written")?)
    }

    /// Returns the busiest pipe with the share of cycles in which it is busy.
    pub fn busiest_pipe(&self) -> Option<(&str, f64)> {
        self.largest(PIPE, |_| true)
    }

    /// Returns the main reason for which warps wait, with its share of all warps per issued instruction.
    pub fn top_stall(&self) -> Option<(&str, f64)> {
        let all: f64 = self.with(STALL).map(|(_, value)| value).sum();
        let (reason, value) = self.largest(STALL, |name| name != ISSUING)?;
        (all > 0.0).then_some((reason, value / all))
    }

    /// Returns the share of passes through shared memory that are bank conflicts.
    pub fn conflicts(&self) -> Option<f64> {
        let all = self.value("shared_wavefronts").filter(|all| *all > 0.0)?;
        Some(self.value("shared_conflicts")? / all)
    }

    /// Returns the share of the bytes through L1 that belong to local memory.
    pub fn local(&self) -> Option<f64> {
        let all = self.value("l1_bytes").filter(|all| *all > 0.0)?;
        Some((self.value("local_loaded")? + self.value("local_stored")?) / all)
    }

    /// Returns the pipes with their shares of the instructions of warps, largest first. Pipes without instructions are left out.
    pub fn mix(&self) -> Vec<(&str, f64)> {
        let Some(all) = self.value("instructions").filter(|all| *all > 0.0) else { return Vec::new() };
        let mut mix: Vec<_> = self.with(MIX).map(|(pipe, count)| (pipe, count / all)).collect();
        mix.retain(|(_, share)| *share > 0.0);
        mix.sort_by(|a, b| b.1.total_cmp(&a.1));
        mix
    }

    fn with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.values.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, *value)))
    }

    fn largest<'a>(&'a self, prefix: &'a str, counts: impl Fn(&str) -> bool) -> Option<(&'a str, f64)> {
        let named = self.values.iter().filter(|(name, _)| counts(name));
        let found = named.filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, *value)));
        found.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl CounterFigures {
    /// Returns the values of a stage by its label.
    pub fn of_stage(&self, label: &str) -> Option<&StageCounters> {
        self.stages.iter().find(|stage| stage.stage == label)
    }

    /// Returns the sum of a counter over all stages.
    pub fn total(&self, name: &str) -> Option<f64> {
        self.stages.iter().map(|stage| stage.value(name)).sum()
    }

    /// Returns the bytes between the device and its memory over all stages.
    pub fn dram_bytes(&self) -> Option<f64> {
        self.stages.iter().map(StageCounters::dram_bytes).sum()
    }

    /// Returns the busiest pipe of any stage, with the share of cycles in which it is busy.
    pub fn busiest_pipe(&self) -> Option<(&str, f64)> {
        self.stages.iter().filter_map(StageCounters::busiest_pipe).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn stage(values: &[(&str, f64)]) -> StageCounters {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        StageCounters { stage: "a".to_owned(), values }
    }

    #[test]
    fn counters_have_one_name_each() {
        let names: BTreeSet<&str> = COUNTERS.iter().map(|counter| counter.name).collect();
        assert_eq!(names.len(), COUNTERS.len());
    }

    #[test]
    fn derived_figures_follow_from_the_values() {
        let a = stage(&[
            ("dram_read", 300.0),
            ("dram_written", 100.0),
            ("pipe_fma", 0.25),
            ("pipe_tensor", 0.75),
            ("stall_selected", 1.0),
            ("stall_wait", 0.5),
            ("stall_long_scoreboard", 2.5),
            ("shared_wavefronts", 80.0),
            ("shared_conflicts", 20.0),
            ("l1_bytes", 1000.0),
            ("local_loaded", 90.0),
            ("local_stored", 10.0),
            ("instructions", 200.0),
            ("instructions_fma", 100.0),
            ("instructions_lsu", 50.0),
            ("instructions_xu", 0.0),
        ]);
        assert_eq!((a.dram_bytes(), a.conflicts(), a.local()), (Some(400.0), Some(0.25), Some(0.1)));
        assert_eq!(a.busiest_pipe(), Some(("tensor", 0.75)));
        assert_eq!(a.top_stall(), Some(("long_scoreboard", 0.625)), "an issuing warp does not wait");
        assert_eq!(a.mix(), [("fma", 0.5), ("lsu", 0.25)]);
        let figures = CounterFigures { passes: 3, took: Nanos(1e6), stages: vec![a.clone(), a] };
        assert_eq!((figures.dram_bytes(), figures.total("dram_read")), (Some(800.0), Some(600.0)));
        assert_eq!(figures.busiest_pipe(), Some(("tensor", 0.75)));
    }

    #[test]
    fn absent_counters_give_no_figure() {
        let none = stage(&[("shared_wavefronts", 0.0), ("shared_conflicts", 0.0), ("dram_read", 1.0)]);
        assert_eq!((none.dram_bytes(), none.conflicts(), none.local()), (None, None, None));
        assert_eq!((none.busiest_pipe(), none.top_stall(), none.mix()), (None, None, Vec::new()));
        let figures = CounterFigures { passes: 1, took: Nanos(1.0), stages: vec![none] };
        assert_eq!((figures.dram_bytes(), figures.of_stage("b")), (None, None));
    }
}

//! Row of the spreadsheet.

use parallax_analysis::compare::scores::Change;
use parallax_analysis::compare::verdict::Verdict;
use parallax_schema::device::{Clock, EnergySource};
use parallax_schema::record::roofline::Bound;
use parallax_schema::record::{Better, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One case in one run. Missing figures are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SheetRow {
    /// Canonical string.
    pub case: String,
    /// Name of the workload.
    pub workload: String,
    /// `fwd` or `bwd`.
    pub direction: String,
    /// Element type.
    pub dtype: String,
    /// Requested variant.
    pub variant: String,
    /// Variant that ran.
    pub actual_variant: String,
    /// Name of the run.
    pub run: String,
    /// Target of the run.
    pub target: String,
    /// Browser mode, if the run is from a browser and its mode is known: stock, developer or unsafe.
    pub reach: Option<String>,
    /// Name of the device.
    pub device: String,
    /// Outcome of the case: pass, FAIL, skipped, unresolved, impossible or ERROR.
    pub outcome: String,
    /// Median time of one execution.
    pub median_ns: Option<f64>,
    /// 95 % interval of the median, low end.
    pub low_ns: Option<f64>,
    /// 95 % interval of the median, high end.
    pub high_ns: Option<f64>,
    /// Smallest sample.
    pub min_ns: Option<f64>,
    /// Largest sample.
    pub max_ns: Option<f64>,
    /// Number of valid samples.
    pub n: Option<u32>,
    /// Number of discarded samples.
    #[serde(alias = "set_aside")]
    pub discarded: Option<usize>,
    /// Number of executions in one sample.
    pub repeats: Option<u32>,
    /// Method that derives the time of one execution from a sample.
    pub method: Option<Method>,
    /// State of the caches: `hot` or `cold`.
    pub cache: String,
    /// Clock of the samples.
    pub clock: Option<Clock>,
    /// Error of one sample by the clock's step, as a share of the sample.
    pub clock_error: Option<f64>,
    /// Fixed cost of a submission, on the host's clock.
    pub host_fixed_ns: Option<f64>,
    /// Median time of a single call until its completion is known.
    pub call_done_ns: Option<f64>,
    /// Median time of a single call until the first bytes of its result are on the host.
    pub call_result_ns: Option<f64>,
    /// Operations per second at the median.
    pub flops_per_s: Option<f64>,
    /// Bytes per second at the median.
    pub bytes_per_s: Option<f64>,
    /// Name of the workload's items, in the plural; empty for most workloads.
    pub items: Option<String>,
    /// Items per second at the median.
    pub items_per_s: Option<f64>,
    /// Median clock of the multiprocessors after samples, in MHz.
    #[serde(default)]
    pub sm_clock_mhz: Option<f64>,
    /// Lowest clock of the multiprocessors.
    #[serde(default)]
    pub sm_clock_low_mhz: Option<f64>,
    /// Highest clock of the multiprocessors.
    #[serde(default)]
    pub sm_clock_high_mhz: Option<f64>,
    /// Median clock of the device memory after samples, in MHz.
    #[serde(default)]
    pub memory_clock_mhz: Option<f64>,
    /// Median power of the board after samples, in watts.
    #[serde(default)]
    pub board_power_w: Option<f64>,
    /// Share of samples with reduced clocks.
    #[serde(default)]
    pub throttled: Option<f64>,
    /// Median energy of one execution, in joules.
    #[serde(default)]
    pub energy_j: Option<f64>,
    /// 95 % interval of the energy, low end.
    #[serde(default)]
    pub energy_low_j: Option<f64>,
    /// 95 % interval of the energy, high end.
    #[serde(default)]
    pub energy_high_j: Option<f64>,
    /// Mean power during executions, in watts.
    #[serde(default)]
    pub power_w: Option<f64>,
    /// Power before the first case, at rest.
    #[serde(default)]
    pub idle_w: Option<f64>,
    /// Mean of the power samples over the same time as `power_w`.
    #[serde(default)]
    pub sampled_power_w: Option<f64>,
    /// Operations per joule.
    #[serde(default)]
    pub flops_per_j: Option<f64>,
    /// Items per joule.
    #[serde(default)]
    pub items_per_j: Option<f64>,
    /// Origin of the energy: `nvml` or `rapl`.
    #[serde(default)]
    pub energy_source: Option<EnergySource>,
    /// Reason of the absence of energy, where it was asked for.
    #[serde(default)]
    pub no_energy: Option<String>,
    /// Bytes read from device memory by hardware counters, over all stages.
    #[serde(default)]
    pub dram_read_bytes: Option<f64>,
    /// Bytes written to device memory by hardware counters, over all stages.
    #[serde(default)]
    pub dram_written_bytes: Option<f64>,
    /// Bytes of device memory by hardware counters over the least bytes of the case.
    #[serde(default)]
    pub dram_of_least: Option<f64>,
    /// Busiest pipe of any stage.
    #[serde(default)]
    pub busiest_pipe: Option<String>,
    /// Share of cycles in which it is busy.
    #[serde(default)]
    pub busiest_pipe_share: Option<f64>,
    /// Reason of the absence of counters, where they were asked for.
    #[serde(default)]
    pub no_counters: Option<String>,
    /// Peak device memory.
    pub peak_memory_bytes: Option<u64>,
    /// Largest error of an output.
    #[serde(default)]
    pub worst_error: Option<f64>,
    /// Largest error relative to its bound.
    #[serde(default)]
    pub worst_of_bound: Option<f64>,
    /// Root mean square of the errors.
    #[serde(default)]
    pub rms_error: Option<f64>,
    /// Largest error in units in the last place.
    #[serde(default)]
    pub worst_ulps: Option<f64>,
    /// Root mean square of the errors in units in the last place.
    #[serde(default)]
    pub rms_ulps: Option<f64>,
    /// Whether the last execution gave the same bits as the first.
    pub repeatable: Option<bool>,
    /// Difference of the last execution from the first, relative to the error bound; absent for equal bits.
    pub repeat_of_bound: Option<f64>,
    /// Operations per byte that must move.
    pub intensity: Option<f64>,
    /// Shortest time that the ceilings allow.
    pub floor_ns: Option<f64>,
    /// Share of the binding ceiling.
    pub utilisation: Option<f64>,
    /// Binding ceiling of the case.
    pub bound: Option<Bound>,
    /// Name of the base of the ratios.
    pub base: Option<String>,
    /// Median over the base's.
    pub ratio: Option<f64>,
    /// Interval of the ratio, low end.
    pub ratio_low: Option<f64>,
    /// Interval of the ratio, high end.
    pub ratio_high: Option<f64>,
    /// Verdict on the ratio.
    pub verdict: Option<Verdict>,
    /// Smallest difference that counts, as a share of the time.
    pub resolution: Option<f64>,
    /// Smallest change with a verdict between the two runs, as a share of the time.
    #[serde(rename = "minimum_detectable_effect", alias = "detectable")]
    pub detectable: Option<f64>,
    /// Name of the score of this row; such a row has no times.
    pub score: Option<String>,
    /// Value of the score.
    pub score_value: Option<f64>,
    /// 95 % interval of the score, low end.
    pub score_low: Option<f64>,
    /// 95 % interval of the score, high end.
    pub score_high: Option<f64>,
    /// Direction in which the score is better.
    pub score_better: Option<Better>,
    /// Number of items of the score.
    pub score_items: Option<u64>,
    /// Score less the base's score.
    pub difference: Option<f64>,
    /// Interval of the difference, low end.
    pub difference_low: Option<f64>,
    /// Interval of the difference, high end.
    pub difference_high: Option<f64>,
    /// Verdict on the difference.
    pub change: Option<Change>,
    /// Reasons of skips, errors, substitutions and verdicts.
    pub reasons: String,
    /// Seconds since 1970 (UTC) at the begin of the run.
    #[serde(default)]
    pub started: u64,
    /// Commit of the program, with a digest of the changes of its tree.
    #[serde(default)]
    pub commit: String,
    /// Interface and driver of the device.
    #[serde(default)]
    pub driver: String,
    /// Class of the device.
    #[serde(default)]
    pub device_class: String,
    /// Identifier or address of the device.
    #[serde(default)]
    pub device_id: Option<String>,
    /// Browser with its version.
    #[serde(default)]
    pub browser: Option<String>,
    /// Checks that kernels keep on a native target.
    #[serde(default)]
    pub checks: Option<String>,
    /// Tunables of the variant that differ from the defaults, as in `BLOCK_K=8, STAGES=3`.
    #[serde(default)]
    pub tuning: Option<String>,
    /// Hash of the final kernel sources.
    #[serde(default)]
    pub kernel_sources: Option<String>,
    /// Name of the machine.
    #[serde(default)]
    pub host: Option<String>,
    /// Name of the processor.
    #[serde(default)]
    pub processor: Option<String>,
    /// Number of processors that the run could use.
    #[serde(default)]
    pub processors: Option<u32>,
    /// Memory of the machine.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Kind of the container.
    #[serde(default)]
    pub container: Option<String>,
    /// Scheduler or service with the identity of the job.
    #[serde(default)]
    pub job: Option<String>,
    /// Rank of the process in its job.
    #[serde(default)]
    pub rank: Option<u32>,
}

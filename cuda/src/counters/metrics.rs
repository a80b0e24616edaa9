//! Names of the counters in NVIDIA's libraries.

use std::borrow::Cow;

use parallax_schema::record::STALL;

/// Metric of NVIDIA's libraries, and the factor from its unit to that of the counter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    pub(super) name: Cow<'static, str>,
    pub(super) scale: f64,
}

/// Returns the metric of a counter of [`COUNTERS`](parallax_schema::record::COUNTERS). `None` for other names.
pub(super) fn metric(counter: &str) -> Option<Metric> {
    let plain = |name| Some(Metric { name: Cow::Borrowed(name), scale: 1.0 });
    let percent = |name| Some(Metric { name: Cow::Borrowed(name), scale: 0.01 });
    match counter {
        "dram_read" => plain("dram__bytes_read.sum"),
        "dram_written" => plain("dram__bytes_write.sum"),
        "dram_busy" => percent("dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        "l2_bytes" => plain("lts__t_bytes.sum"),
        "l2_hits" => percent("lts__t_sector_hit_rate.pct"),
        "l1_bytes" => plain("l1tex__t_bytes.sum"),
        "l1_hits" => percent("l1tex__t_sector_hit_rate.pct"),
        "load_sectors" => plain("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"),
        "store_sectors" => plain("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"),
        "shared_wavefronts" => plain("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
        "shared_conflicts" => plain("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
        "local_loaded" => plain("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum"),
        "local_stored" => plain("l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum"),
        "instructions" => plain("sm__inst_executed.sum"),
        "issue_slots" => percent("sm__inst_issued.avg.pct_of_peak_sustained_active"),
        "occupancy" => percent("sm__warps_active.avg.pct_of_peak_sustained_active"),
        "pipe_tensor" => percent("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
        "pipe_fma" => percent("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"),
        "pipe_alu" => percent("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active"),
        "pipe_fp64" => percent("sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"),
        "pipe_xu" => percent("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
        "pipe_lsu" => percent("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active"),
        "instructions_tensor" => plain("sm__inst_executed_pipe_tensor.sum"),
        "instructions_fma" => plain("sm__inst_executed_pipe_fma.sum"),
        "instructions_alu" => plain("sm__inst_executed_pipe_alu.sum"),
        "instructions_xu" => plain("sm__inst_executed_pipe_xu.sum"),
        "instructions_lsu" => plain("sm__inst_executed_pipe_lsu.sum"),
        other => other.strip_prefix(STALL).map(|reason| Metric {
            name: format!("smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio").into(),
            scale: 1.0,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::COUNTERS;
    use std::collections::BTreeSet;

    #[test]
    fn every_counter_has_a_metric_of_its_own() {
        let metrics: BTreeSet<String> = COUNTERS
            .iter()
            .map(|counter| metric(counter.name).unwrap_or_else(|| panic!("{}", counter.name)).name.into_owned())
            .collect();
        assert_eq!(metrics.len(), COUNTERS.len());
        assert_eq!(metric("time"), None);
    }
}

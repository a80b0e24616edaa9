//! Findings from the hardware counters of a stage, each with its evidence and a remedy.

use parallax_schema::record::StageCounters;
use parallax_schema::units::{Bytes, percent, three_digits};

/// Share of the bytes through L1 from which local memory is worth a remark.
const LOCAL: f64 = 0.02;
/// Ratio of measured to declared bytes from which data is fetched again.
const AGAIN: f64 = 1.3;
/// Share of the peak rate of device memory from which only fewer bytes help.
const DRAM: f64 = 0.7;
/// Share of cycles from which a pipe limits a kernel.
const PIPE: f64 = 0.6;
/// Sectors of the widest aligned load of a warp: 16 bytes for each of 32 threads.
const SECTORS: f64 = 16.0;
/// Share of passes through shared memory from which bank conflicts are worth a remark.
const CONFLICTS: f64 = 0.15;
/// Share of issue slots from which only fewer instructions help.
const ISSUE: f64 = 0.7;

/// Returns the first finding that applies to a stage, as a sentence without a full stop; `None` without any counter for it.
/// `declared` are the least bytes between the device and its memory.
pub(crate) fn finding(stage: &StageCounters, declared: Option<Bytes>) -> Option<String> {
    [spills, fetched_again, memory, pipe, sectors, conflicts, issue, wait].iter().find_map(|rule| rule(stage, declared))
}

fn spills(stage: &StageCounters, _: Option<Bytes>) -> Option<String> {
    let share = stage.local().filter(|share| *share >= LOCAL)?;
    Some(format!(
        "{} of its bytes through L1 are local memory, as of spilled registers: fewer values in flight per thread would keep them in \
         registers",
        percent(share)
    ))
}

fn fetched_again(stage: &StageCounters, declared: Option<Bytes>) -> Option<String> {
    let declared = declared.filter(|declared| declared.0 > 0)?.0 as f64;
    let ratio = Some(stage.dram_bytes()? / declared).filter(|ratio| *ratio >= AGAIN)?;
    let hits = stage.value("l2_hits").map_or_else(String::new, |hits| format!(", with {} hits in L2", percent(hits)));
    Some(format!(
        "it moves {}× its least bytes through DRAM{hits}: larger tiles or another order of blocks would fetch less",
        three_digits(ratio)
    ))
}

fn memory(stage: &StageCounters, _: Option<Bytes>) -> Option<String> {
    let busy = stage.value("dram_busy").filter(|busy| *busy >= DRAM)?;
    Some(format!("DRAM works at {} of its peak: only fewer bytes help, as in a smaller element type", percent(busy)))
}

fn pipe(stage: &StageCounters, _: Option<Bytes>) -> Option<String> {
    let (pipe, share) = stage.busiest_pipe().filter(|(_, share)| *share >= PIPE)?;
    Some(format!("the pipe `{pipe}` is busy for {} of the cycles: only less work for it helps", percent(share)))
}

fn sectors(stage: &StageCounters, _: Option<Bytes>) -> Option<String> {
    let of = |name: &str| stage.value(name).filter(|sectors| *sectors > SECTORS);
    let (name, sectors) = [("load", "load_sectors"), ("store", "store_sectors")]
        .into_iter()
        .find_map(|(name, counter)| Some((name, of(counter)?)))?;
    Some(format!(
        "a {name} of a warp touches {sectors:.1} sectors, and its widest vectors fill {SECTORS}: neighbouring threads should access \
         neighbouring addresses"
    ))
}

fn conflicts(stage: &StageCounters, _: Option<Bytes>) -> Option<String> {
    let share = stage.conflicts().filter(|share| *share >= CONFLICTS)?;
    Some(format!(
        "{} of its passes through shared memory are bank conflicts: padded or swizzled rows would avoid them",
        percent(share)
    ))
}

fn issue(stage: &StageCounters, _: Option<Bytes>) -> Option<String> {
    let share = stage.value("issue_slots").filter(|share| *share >= ISSUE)?;
    let pipe =
        stage.mix().first().map_or_else(String::new, |(pipe, _)| format!(", most of them for the pipe `{pipe}`"));
    Some(format!(
        "{} of the issue slots are used{pipe}: fewer instructions help, as in wider vectors and precomputed indices",
        percent(share)
    ))
}

fn wait(stage: &StageCounters, _: Option<Bytes>) -> Option<String> {
    let (reason, share) = stage.top_stall()?;
    let (cause, remedy) = match reason {
        "long_scoreboard" => ("data from global memory", "more loads in flight, or asynchronous copies, would hide it"),
        "short_scoreboard" => {
            ("shared memory or special functions", "wider accesses and fewer exponentials would shorten it")
        }
        "barrier" => ("the barriers of their blocks", "smaller blocks or fewer barriers would shorten it"),
        "membar" => ("memory fences", "fewer fences would shorten it"),
        "math_pipe_throttle" => ("a busy arithmetic pipe", "only fewer operations help"),
        "mio_throttle" => ("the queue of shared memory", "wider accesses to shared memory would shorten it"),
        "lg_throttle" => ("the queue of global memory", "wider accesses to global memory would shorten it"),
        "gmma" => ("products of warpgroups", "deeper pipelines would overlap them"),
        "wait" => ("fixed latencies of instructions", "more independent operations per thread would fill them"),
        "no_instruction" => ("their instructions", "shorter code with less unrolling would fit its cache"),
        "not_selected" => ("their schedulers, though they are ready", "fewer instructions help"),
        _ => return Some(format!("of its warps, {} are in the state `{reason}`", percent(share))),
    };
    Some(format!("{} of its warps wait for {cause}: {remedy}", percent(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_names_its_evidence() {
        let all: &[(&[(&str, f64)], &str)] = &[
            (&[("l1_bytes", 100.0), ("local_loaded", 2.0), ("local_stored", 1.0)], "3.00 % of its bytes through L1"),
            (
                &[("dram_read", 1500.0), ("dram_written", 500.0), ("l2_hits", 0.5)],
                "2.00× its least bytes through DRAM, with 50.0 %",
            ),
            (&[("dram_busy", 0.85)], "DRAM works at 85.0 %"),
            (&[("pipe_tensor", 0.8), ("pipe_fma", 0.1)], "`tensor` is busy for 80.0 %"),
            (&[("load_sectors", 32.0)], "a load of a warp touches 32.0 sectors, and its widest vectors fill 16"),
            (&[("load_sectors", 16.0), ("store_sectors", 20.0)], "a store of a warp touches 20.0 sectors"),
            (&[("shared_wavefronts", 100.0), ("shared_conflicts", 40.0)], "40.0 % of its passes through shared memory"),
            (
                &[("issue_slots", 0.75), ("instructions", 10.0), ("instructions_alu", 6.0)],
                "75.0 % of the issue slots are used, most of them for the pipe `alu`",
            ),
            (
                &[("stall_long_scoreboard", 3.0), ("stall_selected", 1.0)],
                "75.0 % of its warps wait for data from global",
            ),
            (&[("stall_sleeping", 3.0), ("stall_selected", 1.0)], "in the state `sleeping`"),
        ];
        for (values, want) in all {
            let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let stage = StageCounters { stage: "a".to_owned(), values };
            let said = finding(&stage, Some(Bytes(1000))).unwrap_or_else(|| panic!("{want}"));
            assert!(said.contains(want), "{said}");
        }
    }

    #[test]
    fn small_values_and_absent_counters_are_no_finding() {
        let values = [("dram_read", 600.0), ("dram_written", 500.0), ("pipe_fma", 0.3), ("load_sectors", 4.0)];
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let stage = StageCounters { stage: "a".to_owned(), values };
        assert_eq!(finding(&stage, Some(Bytes(1000))), None);
        assert_eq!(finding(&StageCounters::default(), None), None);
    }
}

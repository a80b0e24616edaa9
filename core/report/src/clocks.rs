//! Clocks of the device for readers: columns of a run's table.

use parallax_schema::record::{Range, Record, Run, Timing};
use parallax_schema::units::percent;

use super::grid::{Cell, Column, Rank};

/// Returns the columns of a run whose clocks were asked for; none for other runs.
pub(crate) fn columns(run: &Run) -> Vec<Column> {
    match run.spec.clocks {
        true => vec![
            Column::figure("clock", Rank::Useful),
            Column::figure("memory clock", Rank::Extra),
            Column::figure("board power", Rank::Extra),
            Column::figure("throttled", Rank::Extra),
        ],
        false => Vec::new(),
    }
}

/// Returns the cells of a record in [`columns`]: medians, and ranges where readings differ.
pub(crate) fn cells(record: &Record) -> [Cell; 4] {
    let clocks = record.timing().and_then(Timing::clocks);
    let Some(clocks) = clocks else { return ["–"; 4].map(Cell::from) };
    let [sm, memory] = [clocks.sm_mhz, clocks.memory_mhz].map(|range| reading(range, "MHz"));
    let throttled = if clocks.throttled == 0.0 { "no".to_owned() } else { percent(clocks.throttled) };
    [sm, memory, reading(clocks.power_w, "W"), throttled].map(Cell::from)
}

fn reading(range: Option<Range>, unit: &str) -> String {
    let whole = |value: f64| format!("{value:.0}");
    match range {
        Some(Range { low, median, high }) if low == high => format!("{} {unit}", whole(median)),
        Some(Range { low, median, high }) => {
            format!("{} {unit} ({}–{})", whole(median), whole(low), whole(high))
        }
        None => "–".to_owned(),
    }
}

/// Returns a line about a fixed clock, and one for a run without any sensor of clocks.
pub(crate) fn clocks(run: &Run) -> Vec<String> {
    let fixed = run.spec.lock_clocks;
    let fixed = fixed.map(|mhz| format!("the clock of the multiprocessors was fixed at {mhz} MHz by --lock-clocks"));
    let timed = || run.records.iter().filter_map(Record::timing);
    let none = run.spec.clocks && timed().next().is_some() && timed().all(|timing| timing.clocks().is_none());
    let none =
        none.then(|| format!("no clocks: {} has no sensor of its clocks that this program reads", run.device().name));
    fixed.into_iter().chain(none).collect()
}

#[cfg(test)]
mod tests {
    use parallax_schema::device::Conditions;
    use parallax_schema::testing::{measured, run, spread};

    use super::*;

    #[test]
    fn clocks_have_columns_where_they_were_asked_for() {
        const CASES: [&str; 2] = ["a/fwd/n1/f32/x", "b/fwd/n1/f32/y"];
        let mut run = run("cuda", "X", &CASES.map(|case| (case, spread(100.0, 0.01, 3))));
        assert_eq!((columns(&run).len(), clocks(&run)), (0, Vec::new()));
        run.spec.clocks = true;
        assert_eq!(
            (columns(&run).len(), clocks(&run)),
            (4, vec!["no clocks: X has no sensor of its clocks that this program reads".to_owned()])
        );
        let at = |mhz: f64| Conditions { sm_clock_mhz: Some(mhz), power_w: Some(612.4), ..Conditions::default() };
        measured(&mut run, CASES[0]).timing.as_mut().expect("a time").conditions =
            [1980.0, 1410.0, 1755.0].map(at).to_vec();
        let texts = |record| cells(record).map(|cell| cell.text);
        assert_eq!(texts(&run.records[0]), ["1755 MHz (1410–1980)", "–", "612 W", "no"]);
        assert_eq!(texts(&run.records[1]), ["–"; 4]);
        run.spec.lock_clocks = Some(1410);
        assert_eq!(clocks(&run), ["the clock of the multiprocessors was fixed at 1410 MHz by --lock-clocks"]);
    }
}

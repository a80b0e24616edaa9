//! Bandwidths of collectives for readers: columns of a run's table.

use parallax_schema::record::{Record, Run, Score, of_collectives};
use parallax_schema::units::three_digits;

use super::grid::{Cell, Column, Rank};

/// Returns the columns of a run with collectives; none for other runs.
pub(crate) fn columns(run: &Run) -> Vec<Column> {
    match run.records.iter().any(|record| of(record, of_collectives::BUS).is_some()) {
        true => {
            vec![Column::figure("algorithm GB/s", Rank::Extra), Column::figure("bus GB/s", Rank::Useful)]
        }
        false => Vec::new(),
    }
}

/// Returns the cells of a record in [`columns`].
pub(crate) fn cells(record: &Record) -> [Cell; 2] {
    [of_collectives::ALGORITHM, of_collectives::BUS].map(|name| of(record, name).map_or("–".into(), cell))
}

/// Returns whether a score has a column here.
pub(crate) fn has_column(score: &Score) -> bool {
    [of_collectives::ALGORITHM, of_collectives::BUS].contains(&score.name.as_str())
}

fn of<'r>(record: &'r Record, name: &str) -> Option<&'r Score> {
    record.measured()?.scores.iter().find(|score| score.name == name)
}

fn cell(score: &Score) -> Cell {
    let [value, low, high] = [score.value, score.low, score.high].map(three_digits);
    Cell { more: Some(format!("{low} to {high}")), ..value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::Better;
    use parallax_schema::testing::{measured, run, score, spread};

    #[test]
    fn bandwidths_have_columns_in_runs_of_collectives() {
        const CASES: [&str; 2] = ["all_reduce/fwd/n256/f32/nccl", "copy/fwd/n256/f32/vec4"];
        let mut run = run("cuda", "X", &CASES.map(|case| (case, spread(100.0, 0.01, 3))));
        assert!(columns(&run).is_empty());
        let both = [(of_collectives::ALGORITHM, 100.0), (of_collectives::BUS, 150.0)];
        measured(&mut run, CASES[0]).scores = both.map(|(name, value)| score(name, value, Better::Higher)).to_vec();
        assert_eq!(columns(&run).len(), 2);
        assert_eq!(cells(&run.records[0]).map(|cell| cell.text), ["100", "150"]);
        assert_eq!(cells(&run.records[1]).map(|cell| cell.text), ["–"; 2]);
        assert!(crate::scores(&run).is_empty(), "{:?}", crate::scores(&run));
    }
}

//! Energy for readers: columns of a run's table, and lines below it.

use parallax_schema::case::Rate;
use parallax_schema::record::{EnergyFigure, Record, Run};
use parallax_schema::units::{percent, scaled, three_digits};

use super::absent::absences;
use super::grid::{Cell, Column, Rank};

/// Returns the columns of a run with the energy of a case; none for other runs.
pub(crate) fn columns(run: &Run) -> Vec<Column> {
    match run.records.iter().any(|record| record.energy().is_some()) {
        true => vec![
            Column::figure("energy", Rank::Useful),
            Column::figure("power", Rank::Extra),
            Column::figure("per joule", Rank::Extra),
        ],
        false => Vec::new(),
    }
}

/// Returns the cells of a record in [`columns`]. Work per joule is in the unit of the workload's speed.
pub(crate) fn cells(record: &Record, told_in: Option<Rate>) -> [Cell; 3] {
    let Some(energy) = record.energy() else { return ["–"; 3].map(Cell::from) };
    let precision = (energy.high - energy.low) / 2.0 / energy.joules;
    let flops = record.cost.flops.0 as f64 / energy.joules;
    let per_joule = match told_in {
        Some(Rate::Flops) => scaled(flops, "FLOP/J"),
        Some(Rate::Ops) => scaled(flops, "OP/J"),
        _ => scaled(record.cost.moved().0 as f64 / energy.joules, "B/J"),
    };
    let power = format!("{} W", three_digits(energy.watts));
    [format!("{} ± {}", joules(energy.joules), percent(precision)), power, per_joule].map(Cell::from)
}

/// Returns an energy with a prefix: `1.23 mJ`.
pub fn joules(value: f64) -> String {
    match value {
        v if v < 0.9995e-3 => format!("{} µJ", three_digits(v * 1e6)),
        v if v < 0.9995 => format!("{} mJ", three_digits(v * 1e3)),
        v => scaled(v, "J"),
    }
}

/// Returns a line about the counter and the power at rest, and a line for each reason of an absence.
pub fn energy(run: &Run) -> Vec<String> {
    let figures: Vec<&EnergyFigure> = run.records.iter().filter_map(Record::energy).collect();
    let about = figures.first().map(|first| {
        let busy = figures.iter().map(|energy| energy.busy).fold(1.0, f64::min);
        let apart = figures.iter().filter_map(|energy| Some((energy.integrated_watts? / energy.watts - 1.0).abs()));
        let apart = apart
            .reduce(f64::max)
            .map_or_else(String::new, |apart| format!(", power samples at most {} from the counter", percent(apart)));
        format!(
            "energy: {} in steps of {}, {} W at rest, device busy for {} of a stretch at least{apart}",
            first.source.name(),
            first.step,
            three_digits(first.idle_watts),
            percent(busy)
        )
    });
    let absent = run.records.iter().filter_map(|record| Some((record.no_energy()?, record.case.as_str())));
    about.into_iter().chain(absences("energy", absent)).collect()
}

/// Returns formatted items per joule of a record with both.
pub(crate) fn items_per_joule(record: &Record) -> Option<String> {
    let (items, energy) = (record.items.as_ref()?, record.energy()?);
    let rate = scaled(items.count as f64 / energy.joules, "");
    Some(format!("{} {}/J", rate.trim_end(), items.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::{Energy, Items};
    use parallax_schema::testing::{energy as figure, measured, run, spread};

    const CASES: [&str; 2] = ["a/fwd/n1/f32/x", "b/fwd/n1/f32/y"];

    #[test]
    fn energy_has_columns_where_it_was_measured() {
        let mut run = run("cuda", "X", &CASES.map(|case| (case, spread(100.0, 0.01, 20))));
        assert_eq!((columns(&run).len(), energy(&run).len()), (0, 0));
        measured(&mut run, CASES[0]).energy = Some(Energy::Measured(Box::new(figure(0.002))));
        measured(&mut run, CASES[1]).energy = Some(Energy::Absent("no counter".to_owned()));
        assert_eq!(columns(&run).len(), 3);
        let texts = |record, rate| cells(record, rate).map(|cell| cell.text);
        assert_eq!(texts(&run.records[0], Some(Rate::Flops)), ["2.00 mJ ± 1.00 %", "500 W", "1.00 GFLOP/J"]);
        assert_eq!(texts(&run.records[0], None), ["2.00 mJ ± 1.00 %", "500 W", "250 MB/J"]);
        assert_eq!(texts(&run.records[1], None), ["–"; 3]);
        let about = "energy: NVML in steps of 20.0 ms, 70.0 W at rest, device busy for 99.0 % of a stretch at least, power samples at \
                     most 2.00 % from the counter";
        assert_eq!(energy(&run), [about, "no energy of b/fwd/n1/f32/y: no counter"]);
        assert_eq!(items_per_joule(&run.records[0]), None);
        run.records[0].items = Some(Items { name: "samples".to_owned(), count: 8 });
        assert_eq!(items_per_joule(&run.records[0]).as_deref(), Some("4.00 k samples/J"));
    }

    #[test]
    fn joules_have_prefixes() {
        for (value, want) in [(2.5e-6, "2.50 µJ"), (0.0125, "12.5 mJ"), (0.99999, "1.00 J"), (1234.0, "1.23 kJ")] {
            assert_eq!(joules(value), want);
        }
    }
}

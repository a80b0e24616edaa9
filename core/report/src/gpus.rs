//! Efficiency of several GPUs, for readers.

use parallax_analysis::compare::verdict::digits;
use parallax_analysis::compare::{Efficiency, GpuLine, GpuTable};
use parallax_schema::record::Timing;
use parallax_schema::units::percent;

use super::{Cell, Column, Rank, Table};

/// Returns the table of a workload on numbers of GPUs, with the definitions below.
pub fn gpus_table(scaled: &GpuTable) -> Table {
    let columns = vec![
        Column::figure(scaled.items, Rank::Essential),
        Column::figure("GPUs", Rank::Essential),
        Column::text("variant"),
        Column::figure("time", Rank::Essential),
        Column::figure("weak efficiency", Rank::Essential),
        Column::figure("strong efficiency", Rank::Essential),
        Column::figure("one GPU, its part", Rank::Extra),
        Column::figure("one GPU, all", Rank::Extra),
    ];
    let dash = || Cell::from("–".to_owned());
    let row = |line: &GpuLine| {
        let both = [&line.weak, &line.strong];
        let mut row = vec![line.items.to_string().into(), line.gpus.to_string().into(), line.variant.clone().into()];
        row.push(time(&line.timing));
        row.extend(both.map(|one| one.as_ref().map_or_else(dash, share)));
        row.extend(both.map(|one| one.as_ref().map_or_else(dash, |one| time(&one.alone))));
        row
    };
    Table {
        heading: vec![format!("{} over GPUs, {}:", scaled.name, scaled.device)],
        columns,
        rows: scaled.lines.iter().map(row).collect(),
        notes: vec![format!(
            "weak efficiency: one GPU's time for the {0} of one over the time of all; strong: one GPU's time for all {0} over the \
             time of all and over their number; one GPU in its fastest variant",
            scaled.items
        )],
        ..Table::default()
    }
}

/// Returns a median with the half width of its interval.
fn time(timing: &Timing) -> Cell {
    let summary = &timing.summary;
    match summary.precision() {
        precision if precision.is_finite() => format!("{} ± {}", summary.median, percent(precision)).into(),
        _ => summary.median.to_string().into(),
    }
}

/// Returns an efficiency with its interval.
fn share(efficiency: &Efficiency) -> Cell {
    match efficiency.interval {
        Some([low, high]) => format!("{} [{}, {}]", digits(efficiency.value), digits(low), digits(high)).into(),
        None => format!("{} [no interval]", digits(efficiency.value)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{spread, timing};

    #[test]
    fn a_line_has_both_efficiencies_and_dashes_for_missing_ones() {
        let line = |gpus: u64, weak: Option<f64>| GpuLine {
            items: 4096 * gpus,
            gpus,
            variant: "overlapped".to_owned(),
            timing: timing(&spread(125_000.0, 0.002, 40)),
            weak: weak.map(|value| Efficiency {
                alone: timing(&spread(100_000.0, 0.002, 40)),
                value,
                interval: Some([value - 0.01, value + 0.01]),
            }),
            strong: None,
        };
        let scaled = GpuTable {
            name: "train_step/fwd+bwd/e8/f32".to_owned(),
            items: "samples",
            device: "H".to_owned(),
            lines: vec![line(2, Some(0.8)), line(4, None)],
        };
        let table = gpus_table(&scaled);
        let texts: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!((texts[0].len(), table.columns.len()), (8, 8));
        assert_eq!(texts[0][..3], ["8192", "2", "overlapped"]);
        assert_eq!(texts[0][4..6], ["0.800 [0.790, 0.810]", "–"]);
        assert!(texts[0][3].starts_with("125 µs ±") && texts[0][6].starts_with("100 µs ±"), "{texts:?}");
        assert_eq!(texts[1][4..], ["–"; 4]);
        assert!(table.heading[0].contains("over GPUs, H"));
    }
}

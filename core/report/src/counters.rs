//! Hardware counters for readers: a table of a case's stages, columns of a run's table, and lines below it.

use parallax_schema::catalog::Catalog;
use parallax_schema::record::{Record, Run, StageCounters};
use parallax_schema::units::{Bytes, percent, scaled, three_digits};

use super::absent::absences;
use super::advice::{declared_bytes, stages};
use super::grid::{Cell, Column, Rank, Table};
use super::known::DeviceContext;

/// Returns the columns of a run whose cases have counters; none for other runs.
pub(crate) fn columns(run: &Run) -> Vec<Column> {
    match run.records.iter().any(|record| record.counters().is_some()) {
        true => vec![
            Column::figure("DRAM", Rank::Useful),
            Column::figure("÷ least", Rank::Useful),
            Column::figure("busiest pipe", Rank::Extra),
        ],
        false => Vec::new(),
    }
}

/// Returns the cells of a record in [`columns`]: bytes of all stages, their ratio to the least bytes of the case, and the busiest
/// pipe of any stage.
pub(crate) fn cells(record: &Record) -> [Cell; 3] {
    let Some(figures) = record.counters() else { return ["–"; 3].map(Cell::from) };
    let bytes = figures.dram_bytes();
    [dram(bytes), ratio(bytes, Some(record.cost.moved())), pipe(figures.busiest_pipe())].map(Cell::from)
}

/// Returns lines about the counters of a run: their cost, and the reasons of their absence.
pub fn counters(run: &Run) -> Vec<String> {
    let figures: Vec<_> = run.records.iter().filter_map(Record::counters).collect();
    let passes = figures.iter().map(|figures| figures.passes).max();
    let about = passes.map(|passes| {
        let took = figures.iter().fold(parallax_schema::units::Nanos(0.0), |sum, figures| sum + figures.took);
        format!(
            "counters: CUPTI, at most {passes} passes for a case, {took} for all; their executions are in no time above"
        )
    });
    let absent = run.records.iter().filter_map(|record| Some((record.no_counters()?, record.case.as_str())));
    about.into_iter().chain(absences("counters", absent)).collect()
}

/// Returns the table of a case's counters, a row for each stage; `None` without counters.
pub fn counters_table(catalog: &dyn Catalog, record: &Record, run: &Run) -> Option<Table> {
    let figures = record.counters()?;
    let parts = stages(record, record.measured()?, DeviceContext::new(catalog, run));
    let all = || parts.iter().flat_map(|part| std::iter::once(part).chain(&part.stages));
    let row = |stage: &StageCounters| {
        let part = all().find(|part| part.name == stage.stage && part.stages.len() < 2);
        let declared = declared_bytes(record, figures, part);
        let share = |name: &str| stage.value(name).map_or_else(dash, percent);
        let sectors = ["load_sectors", "store_sectors"].map(|name| stage.value(name));
        vec![
            Cell::from(stage.stage.clone()),
            dram(stage.dram_bytes()).into(),
            ratio(stage.dram_bytes(), declared).into(),
            share("dram_busy").into(),
            share("l2_hits").into(),
            pipe(stage.busiest_pipe()).into(),
            stage
                .top_stall()
                .map_or_else(dash, |(reason, share)| format!("{} {}", words(reason), percent(share)))
                .into(),
            share("occupancy").into(),
            share("l1_hits").into(),
            share("issue_slots").into(),
            sectors.map(|value| value.map_or_else(dash, |value| format!("{value:.1}"))).join(" / ").into(),
            stage.conflicts().map_or_else(dash, percent).into(),
            stage.local().map_or_else(dash, percent).into(),
            mix(stage).into(),
        ]
    };
    let columns = [
        ("DRAM", Rank::Essential),
        ("÷ declared", Rank::Essential),
        ("DRAM busy", Rank::Useful),
        ("L2 hits", Rank::Useful),
        ("busiest pipe", Rank::Useful),
        ("waits for", Rank::Useful),
        ("occupancy", Rank::Useful),
        ("L1 hits", Rank::Extra),
        ("issue", Rank::Extra),
        ("sectors ld / st", Rank::Extra),
        ("conflicts", Rank::Extra),
        ("local", Rank::Extra),
        ("mix", Rank::Extra),
    ];
    let columns = columns.map(|(title, rank)| Column::figure(title, rank));
    Some(Table {
        columns: std::iter::once(Column::text("counters")).chain(columns).collect(),
        rows: figures.stages.iter().map(row).collect(),
        ..Table::default()
    })
}

fn dash() -> String {
    "–".to_owned()
}

fn dram(bytes: Option<f64>) -> String {
    bytes.map_or_else(dash, |bytes| scaled(bytes, "B"))
}

/// Returns measured bytes over declared ones.
fn ratio(bytes: Option<f64>, declared: Option<Bytes>) -> String {
    let declared = declared.filter(|declared| declared.0 > 0);
    bytes.zip(declared).map_or_else(dash, |(bytes, declared)| format!("{}×", three_digits(bytes / declared.0 as f64)))
}

fn pipe(busiest: Option<(&str, f64)>) -> String {
    busiest.map_or_else(dash, |(pipe, share)| format!("{pipe} {}", percent(share)))
}

/// Returns the reason of a wait as words.
fn words(reason: &str) -> String {
    reason.replace('_', " ")
}

/// Returns the two pipes with the most instructions.
fn mix(stage: &StageCounters) -> String {
    let mix: Vec<String> =
        stage.mix().into_iter().take(2).map(|(pipe, share)| format!("{pipe} {}", percent(share))).collect();
    if mix.is_empty() { dash() } else { mix.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::Counters;
    use parallax_schema::testing::{counters as counted, measured, run, spread};
    use parallax_workloads::Registry;

    const CASES: [&str; 2] = ["copy/fwd/n1000/f32/vec4", "copy/fwd/n2000/f32/vec4"];
    const VALUES: [(&str, f64); 8] = [
        ("dram_read", 500_000.0),
        ("dram_written", 250_000.0),
        ("dram_busy", 0.9),
        ("pipe_lsu", 0.25),
        ("stall_long_scoreboard", 3.0),
        ("stall_selected", 1.0),
        ("instructions", 100.0),
        ("instructions_lsu", 25.0),
    ];

    #[test]
    fn counters_have_columns_where_they_were_read() {
        let mut run = run("cuda", "X", &CASES.map(|case| (case, spread(100.0, 0.01, 20))));
        assert_eq!((columns(&run).len(), counters(&run).len()), (0, 0));
        assert_eq!(counters_table(&Registry, &run.records[0], &run), None);
        measured(&mut run, CASES[0]).counters = Some(Counters::Measured(Box::new(counted(&["copy"], &VALUES))));
        measured(&mut run, CASES[1]).counters = Some(Counters::Absent("no permission".to_owned()));
        assert_eq!(columns(&run).len(), 3);
        let texts = |record| cells(record).map(|cell| cell.text);
        assert_eq!(texts(&run.records[0]), ["750 kB", "1.50×", "lsu 25.0 %"]);
        assert_eq!(texts(&run.records[1]), ["–"; 3]);
        let about =
            "counters: CUPTI, at most 7 passes for a case, 80.0 ms for all; their executions are in no time above";
        assert_eq!(counters(&run), [about.to_owned(), format!("no counters of {}: no permission", CASES[1])]);
    }

    #[test]
    fn a_stage_has_a_row_with_dashes_for_absent_counters() {
        let mut run = run("cuda", "X", &[(CASES[0], spread(100.0, 0.01, 20))]);
        measured(&mut run, CASES[0]).counters = Some(Counters::Measured(Box::new(counted(&["copy"], &VALUES))));
        let table = counters_table(&Registry, &run.records[0], &run).expect("counters");
        let texts: Vec<&str> = table.rows[0].iter().map(|cell| cell.text.as_str()).collect();
        let want = ["copy", "750 kB", "1.50×", "90.0 %", "–", "lsu 25.0 %", "long scoreboard 75.0 %", "–", "–", "–"];
        assert_eq!(texts[..10], want);
        assert_eq!(texts[10..], ["– / –", "–", "–", "lsu 25.0 %"]);
        assert_eq!(table.columns.len(), table.rows[0].len());
    }
}

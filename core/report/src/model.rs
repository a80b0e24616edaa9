//! Time of a model, for readers: its operations, their shares, and the sum.

use std::collections::BTreeMap;

use parallax_analysis::{Estimate, ModelRow, ModelTime, Work, model_time};
use parallax_schema::case::workload_of;
use parallax_schema::record::{Coverage, Model, NamedRun, Operation, Run};
use parallax_schema::units::{Nanos, counted, percent, three_digits};

use super::{Cell, Column, Rank, Table, Tone};

/// Number of kinds of operations without a problem that a note names.
const NAMED: usize = 12;

/// Returns the table of a run's model; `None` for a run of no model.
pub fn model_table(run: &Run) -> Option<Table> {
    let found = model_time(run)?;
    let of_trace = found.traced.is_some();
    let mut columns = vec![
        Column::text("operation"),
        Column::text("problem"),
        Column::figure("count", Rank::Essential),
        Column::figure("each", Rank::Essential),
        Column::figure("share", Rank::Essential),
        Column::label("variant"),
    ];
    if of_trace {
        columns.push(Column::figure("in the trace", Rank::Useful));
        columns.push(Column::figure("÷ trace", Rank::Useful));
    }
    let shown = |row: &&ModelRow| !matches!(row.operation.coverage, Coverage::Free { .. });
    let mut rows: Vec<&ModelRow> = found.rows.iter().filter(shown).collect();
    // The longest first; operations without a time come last.
    rows.sort_by(|a, b| b.share.unwrap_or(-1.0).total_cmp(&a.share.unwrap_or(-1.0)));
    Some(Table {
        heading: vec![format!("model {}:", named(found.model))],
        columns,
        rows: rows.into_iter().map(|row| cells(row, of_trace)).collect(),
        notes: notes(&found),
        ..Table::default()
    })
}

/// Returns the time of each operation of a pass in several runs of one model; `None` if they are of several models, or of none.
///
/// Ratios are of each run over the base.
pub fn models_table(runs: &[NamedRun], base: usize) -> Option<Table> {
    let found: Vec<ModelTime> = runs.iter().map(|NamedRun { run, .. }| model_time(run)).collect::<Option<_>>()?;
    let (first, others) = (found.get(base)?, found.iter().enumerate().filter(|(i, _)| *i != base));
    let (name, others): (&str, Vec<(usize, &ModelTime)>) = (&runs[base].name, others.collect());
    if others.is_empty() || others.iter().any(|(_, other)| !alike(first.model, other.model)) {
        return None;
    }
    let mut columns =
        vec![Column::text("operation"), Column::text("problem"), Column::figure("count", Rank::Essential)];
    columns.push(Column::figure(name, Rank::Essential));
    for (i, _) in &others {
        columns.push(Column::figure(&runs[*i].name, Rank::Essential));
        columns.push(Column::figure(&format!("÷ {name}"), Rank::Essential));
    }
    let pass = |row: &ModelRow| row.each.map(|each| Nanos(each.median.0 * row.operation.count as f64));
    let mut order: Vec<usize> = (0..first.rows.len()).collect();
    order.retain(|i| first.rows[*i].operation.problem().is_some());
    order.sort_by(|a, b| first.rows[*b].share.unwrap_or(0.0).total_cmp(&first.rows[*a].share.unwrap_or(0.0)));
    let dash = || Cell::from("–");
    let row = |i: usize| {
        let of_base = &first.rows[i];
        let problem = of_base.operation.problem().unwrap_or_default();
        let mut cells =
            vec![operation_cell(of_base.operation), problem.into(), of_base.operation.count.to_string().into()];
        cells.push(pass(of_base).map_or_else(dash, |time| time.to_string().into()));
        for (_, other) in &others {
            let (time, of_base) = (pass(&other.rows[i]), pass(of_base));
            cells.push(time.map_or_else(dash, |time| time.to_string().into()));
            let ratio = time.zip(of_base).map(|(time, base)| three_digits(time.0 / base.0));
            cells.push(ratio.map_or_else(dash, |ratio| format!("{ratio}×").into()));
        }
        cells
    };
    let sums = others.iter().filter_map(|(i, other)| Some((&runs[*i].name, ratio(other, first)?)));
    Some(Table {
        heading: vec![format!("model {}, times of one pass:", named(first.model))],
        columns,
        rows: order.into_iter().map(row).collect(),
        notes: sums
            .map(|(other, sum)| {
                format!("one pass on {other}: {sum} of {name}'s, over the operations that both measured")
            })
            .collect(),
        ..Table::default()
    })
}

/// Whether two models have the same operations, perhaps in other element types.
fn alike(a: &Model, b: &Model) -> bool {
    let part = |operation: &Operation| (operation.kind.clone(), operation.layer.clone(), operation.count);
    a.extents == b.extents && a.operations.iter().map(part).eq(b.operations.iter().map(part))
}

/// Returns the times of both, and their ratio, over the operations that both measured.
fn ratio(other: &ModelTime, base: &ModelTime) -> Option<String> {
    let both = other.rows.iter().zip(&base.rows).filter_map(|(a, b)| Some((a.operation.count, a.each?, b.each?)));
    let sums =
        both.fold((0.0, 0.0), |(a, b), (count, x, y)| (a + count as f64 * x.median.0, b + count as f64 * y.median.0));
    (sums.1 > 0.0).then(|| format!("{} is {}×", Nanos(sums.0), three_digits(sums.0 / sums.1)))
}

/// Returns the operations of a model before any measurement, with the share of those without a problem.
pub fn operations_table(model: &Model) -> Table {
    let row = |operation: &Operation| {
        let stands = match &operation.coverage {
            Coverage::Problem { problem, note } if note.is_empty() => Cell::from(problem.as_str()),
            Coverage::Problem { problem, note } => Cell::from(format!("{problem} ({note})")),
            Coverage::Free { reason } => Cell::from(format!("no cost: {reason}")),
            Coverage::Missing { reason } => Cell { tone: Tone::Doubtful, ..format!("none: {reason}").into() },
        };
        vec![operation_cell(operation), stands, operation.count.to_string().into()]
    };
    Table {
        heading: vec![format!("model {}:", named(model))],
        columns: vec![Column::text("operation"), Column::text("problem"), Column::figure("count", Rank::Essential)],
        rows: model.operations.iter().map(row).collect(),
        notes: coverage(model),
        ..Table::default()
    }
}

/// Returns notes on the operations with a problem, and on those without one.
fn coverage(model: &Model) -> Vec<String> {
    let work = Work::of(model);
    let (all, missing) = (work.executions, work.missing_executions);
    let problems = counted(model.problems().len(), "problem");
    let mut notes = vec![format!("{} of {} are measured as {problems}", all - missing, executions(all))];
    notes.extend(without(&work, "problem"));
    let mut kinds = BTreeMap::<&str, u64>::new();
    for operation in model.operations.iter().filter(|one| matches!(one.coverage, Coverage::Missing { .. })) {
        let count = kinds.entry(&operation.kind).or_default();
        *count = count.saturating_add(operation.count);
    }
    let mut named: Vec<String> = kinds.iter().take(NAMED).map(|(kind, count)| format!("{count} {kind}")).collect();
    named.extend((kinds.len() > NAMED).then(|| format!("{} more", counted(kinds.len() - NAMED, "kind"))));
    notes.extend((!named.is_empty()).then(|| format!("these are: {}", named.join(", "))));
    notes.extend(free(&model.operations));
    notes
}

/// Returns a number of executions with its noun.
fn executions(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "execution")
}

/// Returns the share of the missing work; `None` if no work is missing.
fn without(work: &Work, object: &str) -> Option<String> {
    let [share, flops, bytes] = work.missing_shares().map(percent);
    let missing = executions(work.missing_executions);
    (work.missing_executions > 0).then(|| {
        format!("without a {object}: {missing} ({share} of all), with {flops} of the floating-point operations and {bytes} of the bytes")
    })
}

/// Returns the number of operations that cost nothing; `None` if there is none.
fn free<'o>(operations: impl IntoIterator<Item = &'o Operation>) -> Option<String> {
    let free = operations.into_iter().filter(|one| matches!(one.coverage, Coverage::Free { .. }));
    let free = free.map(|one| one.count).fold(0, u64::saturating_add);
    let count = counted(usize::try_from(free).unwrap_or(usize::MAX), "operation");
    (free > 0).then(|| format!("{count} cost nothing, such as views and fused activations"))
}

/// Returns the name of a model with its kind and extents.
fn named(model: &Model) -> String {
    let extents: Vec<String> = model.extents.iter().map(|(name, extent)| format!("{name} {extent}")).collect();
    let extents = if extents.is_empty() { String::new() } else { format!(", {}", extents.join(", ")) };
    format!("{} ({}{extents})", model.name, model.format.title())
}

fn operation_cell(operation: &Operation) -> Cell {
    match operation.layer.as_str() {
        "" => Cell::from(operation.kind.as_str()),
        layer => Cell::from(format!("{layer} {}", operation.kind)),
    }
}

fn cells(row: &ModelRow, of_trace: bool) -> Vec<Cell> {
    let dash = || Cell::from("–");
    let problem = match (row.operation.problem(), row.reason) {
        (problem, Some(reason)) => {
            Cell { tone: Tone::Doubtful, ..format!("{}: {reason}", problem.map_or("none", workload_of)).into() }
        }
        (Some(problem), None) => problem.into(),
        (None, None) => dash(),
    };
    let each = row.each.map_or_else(dash, |each| match each.precision() {
        precision if precision.is_finite() => format!("{} ± {}", each.median, percent(precision)).into(),
        _ => each.median.to_string().into(),
    });
    let mut cells = vec![
        operation_cell(row.operation),
        problem,
        row.operation.count.to_string().into(),
        each,
        row.share.map_or_else(dash, |share| percent(share).into()),
        row.variant.map_or_else(dash, Cell::from),
    ];
    if of_trace {
        let traced = row.operation.traced;
        cells.push(traced.map_or_else(dash, |time| time.to_string().into()));
        let ratio = traced.zip(row.each).filter(|(traced, _)| traced.0 > 0.0);
        cells.push(ratio.map_or_else(dash, |(traced, each)| three_digits(each.median.0 / traced.0).into()));
    }
    cells
}

fn notes(found: &ModelTime) -> Vec<String> {
    let mut notes = Vec::new();
    match found.total {
        Some(Estimate { time, low, high }) => {
            notes.push(format!(
                "one pass takes {time} [{low}, {high}], the sum of its measured operations by their fastest variants"
            ));
        }
        None => notes.push("no operation of the model has a time".to_owned()),
    }
    if let Some((Estimate { time, .. }, traced)) = found.total.zip(found.traced) {
        notes.push(format!("the trace has {traced} for the same operations: {}×", three_digits(time.0 / traced.0)));
    }
    notes.extend(without(&found.work, "time"));
    notes.extend(free(found.rows.iter().map(|row| row.operation)));
    notes
}

/// Returns a sentence on the time of a run's model.
pub fn model_sentence(run: &Run) -> Option<String> {
    let found = model_time(run)?;
    let Estimate { time, low, high } = found.total?;
    Some(format!("One pass of {} takes {time} [{low}, {high}] on {}.", found.model.name, run.device().name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::case::Cost;
    use parallax_schema::record::ModelFormat;
    use parallax_schema::testing;
    use parallax_schema::testing::spread;

    fn run() -> Run {
        let operation = |kind: &str, count, coverage, traced: Option<f64>| Operation {
            kind: kind.to_owned(),
            layer: "layers.*".to_owned(),
            count,
            cost: Cost::new(10, 4, 4),
            coverage,
            traced: traced.map(Nanos),
        };
        let problem = "matmul/fwd/m1,n1,k1/f32".to_owned();
        let operations = vec![
            operation("Gelu", 2, Coverage::Missing { reason: "the suite has no Gelu | <b>".to_owned() }, None),
            operation("MatMul", 3, Coverage::Problem { problem, note: String::new() }, Some(200.0)),
            operation("Reshape", 1, Coverage::Free { reason: "a view".to_owned() }, None),
        ];
        let model = Model {
            name: "m".to_owned(),
            format: ModelFormat::Trace,
            extents: [("seq".to_owned(), 7)].into(),
            operations,
        };
        let cases = [("matmul/fwd/m1,n1,k1/f32/tiled", spread(100.0, 0.002, 41))];
        Run { model: Some(model), ..testing::run("cuda", "gpu", &cases) }
    }

    #[test]
    fn a_table_has_the_longest_operation_first_and_the_rest_with_reasons() {
        let table = model_table(&run()).expect("a model");
        let rows: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(rows[0][..3], ["layers.* MatMul", "matmul/fwd/m1,n1,k1/f32", "3"]);
        assert_eq!(rows[0][4..], ["100 %", "tiled", "200 ns", "0.50"]);
        assert_eq!(rows[1][1], "none: the suite has no Gelu | <b>");
        assert_eq!(rows.len(), 2);
        assert_eq!(table.heading, ["model m (profiler trace, seq 7):"]);
        let notes = table.notes.join("\n");
        for part in
            ["one pass takes 300 ns [", "the trace has 600 ns", "2 executions (40.0 % of all)", "1 operation cost"]
        {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        assert!(!table.markdown().contains("<b>"));
        assert_eq!(model_table(&Run { model: None, ..run() }), None);
        assert!(model_sentence(&run()).is_some_and(|said| said.starts_with("One pass of m takes 300 ns [")));
    }

    #[test]
    fn runs_of_one_model_stand_beside_each_other() {
        let mut slower = run();
        slower.records =
            testing::run("wgpu", "gpu", &[("matmul/fwd/m1,n1,k1/f32/tiled", spread(250.0, 0.002, 41))]).records;
        let runs = [NamedRun::new("cuda", run()), NamedRun::new("browser", slower)];
        let table = models_table(&runs, 0).expect("one model");
        let rows: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(rows, [["layers.* MatMul", "matmul/fwd/m1,n1,k1/f32", "3", "300 ns", "750 ns", "2.50×"]]);
        assert_eq!(
            table.notes,
            ["one pass on browser: 750 ns is 2.50× of cuda's, over the operations that both measured"]
        );
        let mut other = run();
        other.model.iter_mut().for_each(|model| model.operations[0].count = 9);
        assert_eq!(models_table(&[NamedRun::new("a", run()), NamedRun::new("b", other)], 0), None);
        assert_eq!(models_table(&[NamedRun::new("a", run())], 0), None);
    }

    #[test]
    fn operations_are_listed_with_what_stands_for_them() {
        let run = run();
        let table = operations_table(run.model.as_ref().expect("a model"));
        let said: Vec<&str> = table.rows.iter().map(|row| row[1].text.as_str()).collect();
        assert_eq!(said, ["none: the suite has no Gelu | <b>", "matmul/fwd/m1,n1,k1/f32", "no cost: a view"]);
        let share = "40.0 % of the floating-point operations and 40.0 % of the bytes";
        assert_eq!(
            table.notes,
            [
                "3 of 5 executions are measured as 1 problem",
                &format!("without a problem: 2 executions (40.0 % of all), with {share}"),
                "these are: 2 Gelu",
                "1 operation cost nothing, such as views and fused activations",
            ]
        );
    }
}

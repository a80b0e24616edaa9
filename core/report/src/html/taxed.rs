//! Portability tax as a table of a page: a row per case, targets side by side.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_analysis::compare::tax::{Call, Tax, TaxCase};
use parallax_analysis::compare::verdict::digits;
use parallax_schema::case::by_case;
use parallax_schema::catalog::Catalog;
use parallax_schema::units::{Nanos, counted};

use super::anchored;
use crate::{Cell, Column, Rank, Table, named, tax_names, tax_notes};

/// Returns the table of all cases, and the parts of the extra time in each.
pub(crate) fn taxed(catalog: &dyn Catalog, tax: &Tax) -> Markup {
    html! { (anchored(&rows(catalog, tax))) (extra(tax)) (list(&tax_notes(tax))) }
}

/// Returns a closed table per family of workloads.
pub(crate) fn taxed_by_family(catalog: &dyn Catalog, tax: &Tax) -> Markup {
    html! {
        (list(&tax_notes(tax)))
        @for family in Family::ALL {
            @let some = Tax { cases: tax.cases.iter().filter(|case| Family::of(&case.case) == family).cloned().collect(), ..tax.clone() };
            @if !some.cases.is_empty() {
                details.family data-f=(family.key()) {
                    summary { (family.name()) ": " (counted(some.cases.len(), "case")) }
                    (anchored(&rows(catalog, &some)))
                    (extra(&some))
                }
            }
        }
    }
}

/// Returns the parts of the extra time, case by case, as a closed list.
fn extra(tax: &Tax) -> Markup {
    html! {
        details {
            summary { "Where the extra time goes, case by case" }
            ul.soft { @for case in in_order(tax) { li { (case.case) ": " (case.words) } } }
        }
    }
}

fn list(notes: &[String]) -> Markup {
    html! { ul.soft { @for note in notes { li { (note) } } } }
}

/// Returns the cases in the order of tables.
fn in_order(tax: &Tax) -> Vec<&TaxCase> {
    let mut cases: Vec<&TaxCase> = tax.cases.iter().collect();
    cases.sort_by(|a, b| by_case(&a.case, &b.case));
    cases
}

/// Returns a row per case: the kernel and one call of each run, their parts in a second line, and the ratios to the base.
fn rows(catalog: &dyn Catalog, tax: &Tax) -> Table {
    let names = tax_names(tax);
    let others: Vec<usize> = (0..tax.runs.len()).filter(|i| *i != tax.base).collect();
    let called = tax.cases.iter().flat_map(|case| case.calls.iter().flatten()).any(|call| call.whole().is_some());
    let whats = if called { &["kernel", "one call"][..] } else { &["kernel"] };
    let mut columns = vec![Column::text("case")];
    for name in &names {
        columns.extend(whats.iter().map(|what| Column::figure(&format!("{name}: {what}"), Rank::Useful)));
    }
    for i in &others {
        let over =
            |what: &&str| Column::figure(&format!("{what}, {} ÷ {}", names[*i], names[tax.base]), Rank::Essential);
        columns.extend(whats.iter().map(over));
    }
    let row = |case: &&TaxCase| {
        let base = case.calls[tax.base];
        let mut row: Vec<Cell> = vec![named(catalog, &case.case)];
        for (i, call) in case.calls.iter().enumerate() {
            let variant = case.variants.get(i).and_then(Option::as_deref);
            row.push(call.map_or_else(dash, |call| kernel(&call, variant)));
            row.extend(called.then(|| call.and_then(whole).unwrap_or_else(dash)));
        }
        for i in &others {
            let ratio = |time: fn(&Call) -> Option<Nanos>| over(time, base, case.calls[*i]);
            row.push(ratio(|call| Some(call.kernel)));
            row.extend(called.then(|| ratio(Call::whole)));
        }
        row
    };
    Table { columns, rows: in_order(tax).iter().map(row).collect(), ..Table::default() }
}

fn dash() -> Cell {
    "–".into()
}

/// Returns the kernel's time. Below it stand the variant, if targets have different ones, and the dispatch time.
fn kernel(call: &Call, variant: Option<&str>) -> Cell {
    let dispatch = call.dispatch.map(|dispatch| format!("dispatch {dispatch}"));
    let more: Vec<String> = variant.map(str::to_owned).into_iter().chain(dispatch).collect();
    let cell = Cell::from(call.kernel.to_string());
    if more.is_empty() { cell } else { cell.with(more.join(", ")) }
}

/// Returns the time of the whole call, and below it completion and read-back.
fn whole(call: Call) -> Option<Cell> {
    let (completion, readback) = (call.completion?, call.readback?);
    let parts = format!("completion {completion}, readback {readback}");
    Some(Cell::from(call.whole()?.to_string()).with(parts))
}

/// Returns a time over the base's.
fn over(time: fn(&Call) -> Option<Nanos>, base: Option<Call>, other: Option<Call>) -> Cell {
    let ratio = base.as_ref().and_then(time).zip(other.as_ref().and_then(time)).map(|(base, other)| other.0 / base.0);
    ratio.map_or_else(dash, |ratio| format!("{}×", digits(ratio)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::tax::{Pairing, tax};
    use parallax_schema::record::{NamedRun, OneCall};
    use parallax_schema::testing::{measured, run, spread};
    use parallax_workloads::Registry;

    const CASES: [&str; 2] = ["copy/fwd/n128/f32/vec4", "copy/fwd/n64/f32/vec4"];

    #[test]
    fn a_case_is_one_row_with_its_targets_side_by_side() {
        let of = |target: &str, time: f64, called: bool| {
            let mut run = run(target, "X", &CASES.map(|case| (case, spread(time, 0.002, 40))));
            let call = OneCall { done: vec![900.0; 8], result: vec![1200.0; 8] };
            measured(&mut run, CASES[0]).call = called.then_some(call);
            NamedRun::new(target, run)
        };
        for (called, titles) in [
            (false, vec!["case", "cuda: kernel", "browser: kernel", "kernel, browser ÷ cuda"]),
            (
                true,
                vec![
                    "case",
                    "cuda: kernel",
                    "cuda: one call",
                    "browser: kernel",
                    "browser: one call",
                    "kernel, browser ÷ cuda",
                    "one call, browser ÷ cuda",
                ],
            ),
        ] {
            let runs = [of("cuda", 100.0, called), of("browser", 200.0, called)];
            let table = rows(&Registry, &tax(&runs, None, false, Pairing::Same).expect("one GPU"));
            assert_eq!(table.columns.iter().map(|column| column.title.as_str()).collect::<Vec<_>>(), titles);
            assert_eq!(table.rows.iter().map(|row| row[0].text.as_str()).collect::<Vec<_>>(), [CASES[1], CASES[0]]);
            assert!(table.rows.iter().all(|row| row.len() == titles.len()));
            assert!(table.rows[1].iter().any(|cell| cell.text.starts_with("2.0")), "{:?}", table.rows);
        }
    }
}

//! Table and spreadsheet of the portability tax.

use parallax_analysis::compare::tax::{Call, Pairing, Tax, TaxRun};
use parallax_analysis::compare::verdict::digits;
use parallax_schema::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Column, Rank, Table};

/// One line of the tax as a spreadsheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaxRow {
    /// Canonical string.
    pub case: String,
    /// Name of the run.
    pub run: String,
    /// This run's fastest variant, if the pairing is best with best.
    pub variant: Option<String>,
    /// Target of the run.
    pub target: String,
    /// Browser with another WebGPU than Chromium's.
    pub browser: Option<String>,
    /// Checks that kernels keep on a native target.
    pub checks: Option<String>,
    /// Browser mode, if the run is from a browser and its mode is known: stock, developer or unsafe.
    pub reach: Option<String>,
    /// Kernel time, in nanoseconds.
    pub kernel_ns: f64,
    /// Dispatch time, in nanoseconds.
    pub dispatch_ns: Option<f64>,
    /// Completion time, in nanoseconds.
    pub completion_ns: Option<f64>,
    /// Read-back time, in nanoseconds.
    pub readback_ns: Option<f64>,
    /// Time of the whole call, in nanoseconds.
    pub call_ns: Option<f64>,
    /// Kernel time over the base's.
    pub kernel_ratio: Option<f64>,
    /// Time of the call over the base's.
    pub call_ratio: Option<f64>,
}

/// Returns a row per case and run, in full precision.
pub fn tax_rows(tax: &Tax) -> Vec<TaxRow> {
    titled_rows(tax).into_iter().map(|(_, row)| row).collect()
}

/// Returns the rows, each with the name of its run and the properties of the route.
fn titled_rows(tax: &Tax) -> Vec<(String, TaxRow)> {
    let mut rows = Vec::new();
    for case in &tax.cases {
        let near = case.calls[tax.base];
        let variants = case.variants.iter().cloned().chain(std::iter::repeat(None));
        for ((run, call), variant) in tax.runs.iter().zip(&case.calls).zip(variants) {
            let Some(call) = call else { continue };
            let over = |time: fn(&Call) -> Option<Nanos>| Some(time(call)?.0 / time(near.as_ref()?)?.0);
            let row = TaxRow {
                case: case.case.clone(),
                run: run.name.clone(),
                variant: variant.clone(),
                target: run.route.target.clone(),
                browser: run.route.browser.clone(),
                checks: run.route.checks.clone(),
                reach: run.route.reach.map(|reach| reach.name().to_owned()),
                kernel_ns: call.kernel.0,
                dispatch_ns: call.dispatch.map(|t| t.0),
                completion_ns: call.completion.map(|t| t.0),
                readback_ns: call.readback.map(|t| t.0),
                call_ns: call.whole().map(|t| t.0),
                kernel_ratio: over(|c| Some(c.kernel)),
                call_ratio: over(Call::whole),
            };
            rows.push((run.route.titled(&run.name), row));
        }
    }
    rows
}

/// Returns a table with one line per case and run, then the parts of the extra time, case by case.
pub fn tax_table(tax: &Tax) -> Table {
    let base = &tax.runs[tax.base].name;
    use Rank::{Essential, Extra, Useful};
    let mut columns = vec![Column::text("case"), Column::label("target")];
    let times = [
        ("kernel", Useful),
        ("dispatch (part of kernel)", Extra),
        ("completion", Extra),
        ("readback", Extra),
        ("one call", Useful),
    ];
    columns.extend(times.map(|(title, rank)| Column::figure(title, rank)));
    columns.extend(["kernel", "call"].map(|what| Column::figure(&format!("{what} ÷ {base}"), Essential)));
    let time = |t: Option<f64>| t.map_or_else(|| "–".to_owned(), |t| Nanos(t).to_string());
    let ratio = |r: Option<f64>| r.map_or_else(|| "–".to_owned(), |r| format!("{}×", digits(r)));
    let row = |(run, r): (String, TaxRow)| {
        let times = [Some(r.kernel_ns), r.dispatch_ns, r.completion_ns, r.readback_ns, r.call_ns];
        let mut cells = vec![r.case, r.variant.map_or_else(|| run.clone(), |variant| format!("{run}: {variant}"))];
        cells.extend(times.map(time));
        cells.extend([ratio(r.kernel_ratio), ratio(r.call_ratio)]);
        cells.into_iter().map(Into::into).collect()
    };
    let mut notes = tax_notes(tax);
    notes.extend(tax.cases.iter().map(|c| format!("{}: {}", c.case, c.words)));
    Table { columns, rows: titled_rows(tax).into_iter().map(row).collect(), notes, ..Table::default() }
}

/// Returns notes on the whole table.
pub(super) fn tax_notes(tax: &Tax) -> Vec<String> {
    let pairing = match tax.pairing {
        Pairing::Same => "like with like: the same variant on every target",
        Pairing::Best => "best with best: each target's fastest variant, which may be another algorithm",
    };
    let mut notes = vec![
        pairing.to_owned(),
        "one call, submitted alone, is kernel + completion + readback; a dash was not measured".to_owned(),
        means(tax),
    ];
    notes.extend(tax.notes.iter().cloned());
    notes
}

/// Returns the names of the runs, each with the properties of its route.
pub(super) fn tax_names(tax: &Tax) -> Vec<String> {
    tax.runs.iter().map(|run| run.route.titled(&run.name)).collect()
}

/// Returns the geometric means over the cases, as a sentence.
fn means(tax: &Tax) -> String {
    let one = |run: &TaxRun| {
        let kernel = run.kernel_ratio.map(|r| format!("kernels {}×", digits(r)));
        let call = run.call_ratio.map(|r| format!("calls {}×", digits(r)));
        let both: Vec<String> = kernel.into_iter().chain(call).collect();
        (!both.is_empty()).then(|| format!("{} {}", run.name, both.join(" and ")))
    };
    let others = tax.runs.iter().enumerate().filter(|(i, _)| *i != tax.base);
    let others: Vec<String> = others.filter_map(|(_, run)| one(run)).collect();
    format!("against {}, geometric mean over cases: {}", tax.runs[tax.base].name, others.join("; "))
}

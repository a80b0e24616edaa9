//! Parts of a report as markup for another page with the style sheets `parts.css` and `plot.css`. Everything that comes from a run
//! or a link is escaped, and control characters are shown as a code.

use maud::{Markup, html};
use parallax_analysis::compare::identity::same_device;
use parallax_analysis::compare::tax::{Pairing, tax};
use parallax_analysis::compare::{Comparison, Cost};
use parallax_schema::case::workload_of;
use parallax_schema::catalog::Catalog;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Model, NamedRun, Record, Run, RunSummary};
use parallax_schema::units::{counted, sentence};

use super::compared::verdicts;
use super::drift::drift as drift_of;
use super::networks::networks;
use super::{compared, cost_figure, cost_picture, mark, roofline_of, roofline_picture, shown, strip, table, taxed};

/// Number of visible rows of a cost; the others are folded.
const SHOWN: usize = 14;

/// Returns the roofline of a run; empty if no case does arithmetic.
pub fn roofline(run: &Run) -> String {
    shown(roofline_of(run)).into_string()
}

/// Returns the plot of the reference kernel over a run; empty without a reference kernel.
pub fn drift(run: &Run) -> String {
    shown(drift_of(run)).into_string()
}

/// Returns the samples of a case in progress, in the colour of its family; empty without samples.
pub fn samples_so_far(record: &Record) -> String {
    let Some(timing) = record.timing() else { return String::new() };
    let Some(summary) = Summary::of(&timing.samples) else { return String::new() };
    shown(strip::small(&timing.samples, summary.median.0, mark::of_case(&record.case))).into_string()
}

/// Returns the summary in a link as a table, beside a run by name.
pub fn linked(linked: &RunSummary, ours: Option<(&str, &RunSummary)>) -> String {
    let markup = html! {
        p.answer { (crate::linked_answer(linked, ours)) }
        (table(&crate::linked_table(linked, ours)))
    };
    shown(markup).into_string()
}

/// Returns the operations of a model before any measurement: notes on the covered ones, and all in a closed table.
pub fn operations(model: &Model) -> String {
    let mut all = crate::operations_table(model);
    let (heading, notes) = (std::mem::take(&mut all.heading), std::mem::take(&mut all.notes));
    let markup = html! {
        @for line in &heading { p { strong { (line.trim_end_matches(':')) } } }
        ul { @for note in &notes { li { (note) } } }
        details { summary { (counted(all.rows.len(), "operation")) } (table(&all)) }
    };
    shown(markup).into_string()
}

/// Returns the time of each operation of a run's model, below the sum; empty for a run of no model.
pub fn model_time(run: &Run) -> String {
    let markup = html! {
        @if let Some(sentence) = crate::model_sentence(run) { p.answer { (sentence) } }
        @if let Some(times) = crate::model_table(run) { (table(&times)) }
    };
    shown(markup).into_string()
}

/// Returns the roofline of a run as a stand-alone picture; `None` if no case does arithmetic.
pub fn roofline_alone(run: &Run) -> Option<String> {
    roofline_picture(run)
}

/// Returns the cost of each target as a stand-alone picture, under the names of its two runs.
pub fn cost_pictures(costs: &[Cost]) -> Vec<(String, String)> {
    let picture = |cost: &Cost| {
        let file = format!("{}-over-{}", cost.other.name, cost.base.name);
        (file, cost_picture(cost, (&cost.base.title(), &cost.other.title())))
    };
    costs.iter().map(picture).collect()
}

/// Returns a comparison: other differences of the runs, costs of targets on one GPU or processor, verdicts and ratios.
pub fn comparison(catalog: &dyn Catalog, runs: &[NamedRun], comparison: &Comparison, costs: &[Cost]) -> String {
    let markup = html! {
        p { (sentence(&comparison.tally())) }
        @for note in crate::compared_runs(runs).notes { p.soft { (note) } }
        @if let Some(models) = crate::models_table(runs, comparison.base) { section { h2 { "Model" } (table(&models)) } }
        (networks(runs))
        (by_workload(catalog, runs, comparison))
        @for (hardware, costs) in parallax_schema::grouped(costs.iter().map(|cost| (cost.hardware(), cost))) {
            section {
                h2 { "Cost of each target on one " (hardware) }
                @for cost in costs {
                    (cost_figure(catalog, cost, (&cost.base.title(), &cost.other.title()), SHOWN, &html! {}))
                }
            }
        }
        @if let Some(calls) = one_call(catalog, runs) { section.calls { h2 { "Where one call goes" } (calls) } }
        (compared(catalog, comparison))
    };
    shown(markup).into_string()
}

/// Returns the runs beside each other by workload, with the cases of each in closed tables; nothing without valid cases.
fn by_workload(catalog: &dyn Catalog, runs: &[NamedRun], comparison: &Comparison) -> Markup {
    let families = comparison.by_workload(runs);
    let cases = |workload: &str| {
        let of_this = |case: &str| workload_of(case) == workload;
        let mut some = comparison.clone();
        some.pairs.retain(|pair| of_this(&pair.case));
        some.unpaired.retain(|alone| of_this(&alone.case));
        some
    };
    html! {
        @if !families.is_empty() {
            section.families {
                h2 { "By workload" }
                (table(&crate::compared_by_workload(comparison, &families)))
                @for family in &families {
                    @let cases = cases(&family.workload);
                    details {
                        summary { (family.workload) ": " (counted(cases.pairs.len(), "case")) }
                        (table(&verdicts(catalog, &cases)))
                    }
                }
            }
        }
    }
}

/// Returns the parts of one call on the GPU with the most runs. `None` if fewer than two of them timed single calls.
pub(crate) fn one_call(catalog: &dyn Catalog, runs: &[NamedRun]) -> Option<Markup> {
    let called = |run: &Run| run.records.iter().any(|record| record.measured().is_some_and(|m| m.call.is_some()));
    let mut gpus: Vec<Vec<NamedRun>> = Vec::new();
    for named in runs.iter().filter(|NamedRun { run, .. }| called(run)) {
        // A target of a GPU counts once, with the first of its runs.
        match gpus.iter_mut().find(|gpu| same_device(&gpu[0].run, &named.run)) {
            Some(gpu) if gpu.iter().any(|NamedRun { run, .. }| run.way() == named.run.way()) => {}
            Some(gpu) => gpu.push(named.clone()),
            None => gpus.push(vec![named.clone()]),
        }
    }
    let most = gpus.into_iter().max_by_key(Vec::len).filter(|gpu| gpu.len() > 1)?;
    Some(taxed(catalog, &tax(&most, None, false, Pairing::Same).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::OneCall;
    use parallax_schema::testing;
    use parallax_schema::testing::{measured, spread};
    use parallax_workloads::Registry;

    const CASE: &str = "copy/fwd/n64/f32/vec4";

    fn called(target: &str, device: &str) -> NamedRun {
        let mut run = testing::run(target, device, &[(CASE, spread(100.0, 0.01, 40))]);
        let call = OneCall { done: vec![900.0; 8], result: vec![1200.0; 8] };
        measured(&mut run, CASE).call = Some(call);
        NamedRun::new(format!("{target} on {device}"), run)
    }

    #[test]
    fn one_call_is_taken_apart_on_the_gpu_that_most_runs_saw() {
        let mut runs = vec![called("cuda", "X"), called("browser", "Y"), called("cuda", "Y"), called("browser", "Y")];
        let shown = one_call(&Registry, &runs).expect("two targets of Y").into_string();
        assert!(shown.contains("one call") && shown.contains("cuda on Y") && !shown.contains("on X"), "{shown}");
        measured(&mut runs[2].run, CASE).call = None;
        assert!(one_call(&Registry, &runs).is_none(), "one target alone says nothing");
    }
}

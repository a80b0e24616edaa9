//! View of the plan: cases to run, and skips with their reasons.

use std::collections::BTreeMap;

use parallax_schema::session::{OfVariant, Outline};
use web_sys::Element;

use super::View;
use super::dom::{attribute, empty, fill, id, make, say};
use crate::words::count;

impl View {
    /// Shows the plan in a line: number of cases and duration.
    pub fn plan_line(&self, plan: &Outline, time: Option<&str>) {
        let skips = match plan.skips.len() {
            0 => String::new(),
            n => format!(" {n} more cannot run on this device; the plan has the reasons."),
        };
        let line = match plan.cases() {
            0 => format!("Nothing to run.{skips}"),
            cases => format!("{}{}.{skips}", count(cases), time.map(|t| format!(", {t}")).unwrap_or_default()),
        };
        say(&id("plan-line"), &line);
    }

    /// Shows the plan: cases by workload, and skips by reason.
    pub fn plan(&self, plan: &Outline) {
        self.label_results(plan);
        let holder = id("plan");
        empty(&holder);
        for workload in &plan.workloads {
            let list = make("ul", "", "");
            for problem in &workload.problems {
                let item = make("li", "", "");
                fill(&item, [&make("span", "case", &problem.name)]);
                fill(&item, &problem.variants.iter().map(chip).collect::<Vec<_>>());
                fill(&list, [&item]);
            }
            let number = count(workload.cases());
            fill(&holder, [&foldable(&workload.name, &workload.about, &number, &list, plan.cases() <= 12)]);
        }
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for skip in &plan.skips {
            reasons.entry(&skip.reason).or_default().push(&skip.case);
        }
        if !reasons.is_empty() {
            let list = make("ul", "reasons", "");
            for (reason, cases) in reasons {
                let item = make("li", "", "");
                fill(&item, [&make("span", "", reason)]);
                fill(&item, &cases.iter().map(|case| make("span", "case", case)).collect::<Vec<_>>());
                fill(&list, [&item]);
            }
            let about = "with the reason for each";
            fill(&holder, [&foldable("Cannot run here", about, &count(plan.skips.len()), &list, false)]);
        }
        id("plan-section").set_hidden(plan.names.is_empty());
    }
}

/// Chip of a variant in the plan. Its tooltip has the description, and the reason of a fallback.
fn chip(variant: &OfVariant) -> Element {
    let chip = make("span", "chip", &variant.name);
    attribute(&chip, "title", &variant.about);
    chip
}

fn foldable(name: &str, about: &str, count: &str, content: &Element, open: bool) -> Element {
    let details = make("details", "", "");
    if open {
        attribute(&details, "open", "");
    }
    let summary = make("summary", "", "");
    fill(&summary, [&make("b", "", name), &make("span", "quiet", about), &make("span", "count", count)]);
    fill(&details, [&summary, content]);
    details
}

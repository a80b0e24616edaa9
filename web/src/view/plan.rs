//! The plan: what will run, and what cannot and why.

use std::collections::BTreeMap;

use parallax_core::plan::{Plan, Planned};
use parallax_core::suite;
use parallax_core::suite::CPU_VARIANT;
use web_sys::Element;

use super::View;
use super::dom::{attribute, empty, fill, id, make};
use crate::words::count;

impl View {
    /// The plan in a line: how many cases, and how long they will take.
    pub fn plan_line(&self, plan: &Plan, time: Option<&str>) {
        let skips = match plan.skips.len() {
            0 => String::new(),
            n => format!(" {n} cannot run here."),
        };
        let line = match plan.cases.len() {
            0 => format!("Nothing to run.{skips}"),
            cases => format!("{}{}.{skips}", count(cases), time.map(|t| format!(", {t}")).unwrap_or_default()),
        };
        id("plan-line").set_text_content(Some(&line));
    }

    /// The plan: cases by workload, and what will not run, by reason.
    pub fn plan(&self, plan: &Plan) {
        let holder = id("plan");
        empty(&holder);
        for workload in suite::all() {
            let of_this: Vec<&Planned> =
                plan.cases.iter().filter(|c| c.case.problem.workload.name == workload.name).collect();
            if of_this.is_empty() {
                continue;
            }
            let list = make("ul", "", "");
            let mut problem_before = String::new();
            let mut item = make("li", "", "");
            for planned in &of_this {
                let problem = planned.case.problem.to_string();
                if problem != problem_before {
                    item = make("li", "", "");
                    let short = problem.split_once('/').map_or(problem.as_str(), |(_, rest)| rest);
                    fill(&item, [&make("span", "case", short)]);
                    fill(&list, [&item]);
                    problem_before = problem;
                }
                fill(&item, [&chip(planned)]);
            }
            fill(
                &holder,
                [&foldable(workload.name, workload.about, &count(of_this.len()), &list, plan.cases.len() <= 12)],
            );
        }
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for skip in &plan.skips {
            reasons.entry(&skip.reason).or_default().push(skip.case.to_string());
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
        id("plan-section").set_hidden(plan.cases.is_empty() && plan.skips.is_empty());
    }
}

/// A variant in the plan; what it is, and why another runs in its place, on hovering.
fn chip(planned: &Planned) -> Element {
    let variant = planned.case.variant;
    let about = match planned.case.variant_form() {
        Some(form) => form.about,
        None => CPU_VARIANT,
    };
    let (text, title) = match &planned.actual {
        Some(actual) => (format!("{variant} → {}", actual.variant), format!("{about}: {}", actual.reason)),
        None => (variant.to_owned(), about.to_owned()),
    };
    let chip = make("span", "chip", &text);
    attribute(&chip, "title", &title);
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

//! Converts a plan to its outline in words.

use parallax_schema::case::CPU_VARIANT;
use parallax_schema::session::{OfProblem, OfVariant, OfWorkload, Outline, Skipped, Unplanned};
use parallax_workloads::all;

use super::{Plan, PlanError, Planned};

impl From<PlanError> for Unplanned {
    fn from(error: PlanError) -> Unplanned {
        match error {
            PlanError::NothingMatches(nothing) => Unplanned::NothingMatches(nothing.to_string()),
            other => Unplanned::NotHere(other.to_string()),
        }
    }
}

/// Returns the outline of a plan.
pub fn outline(plan: &Plan) -> Outline {
    let mut workloads = Vec::new();
    for workload in all() {
        let mut problems: Vec<OfProblem> = Vec::new();
        for planned in plan.cases.iter().filter(|planned| planned.case.problem.workload.name == workload.name) {
            let problem = planned.case.problem.to_string();
            let name = problem.split_once('/').map_or(problem.as_str(), |(_, rest)| rest);
            match problems.last_mut().filter(|last| last.name == name) {
                Some(last) => last.variants.push(variant(planned)),
                None => problems.push(OfProblem {
                    name: name.to_owned(),
                    label: planned.case.problem.label(),
                    variants: vec![variant(planned)],
                }),
            }
        }
        if !problems.is_empty() {
            workloads.push(OfWorkload { name: workload.name.to_owned(), about: workload.about.to_owned(), problems });
        }
    }
    let skipped = |skip: &super::Skip| Skipped { case: skip.case.to_string(), reason: skip.reason.clone() };
    Outline { names: plan.names(), workloads, skips: plan.skips.iter().map(skipped).collect() }
}

fn variant(planned: &Planned) -> OfVariant {
    let variant = planned.case.variant;
    let about = planned.case.variant_form().map_or(CPU_VARIANT, |form| form.about);
    let (name, about) = match &planned.actual {
        Some(actual) => (format!("{variant} → {}", actual.variant), format!("{about}: {}", actual.reason)),
        None => (variant.to_owned(), about.to_owned()),
    };
    OfVariant { name, about }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use parallax_schema::spec::Spec;
    use parallax_schema::testing::caps;

    #[test]
    fn an_outline_has_every_case_of_the_plan_once_in_its_order() {
        let shapes = [("shape", "n1,n2"), ("filter", "depthwise_conv2d copy"), ("dtype", "f32")];
        let plan = plan(&Spec::from_pairs(shapes).expect("valid"), &caps()).expect("cases");
        let outline = outline(&plan);
        assert_eq!((outline.cases(), outline.skips.len()), (plan.cases.len(), plan.skips.len()));
        let told = outline.workloads.iter().flat_map(|workload| {
            let problems = workload.problems.iter().map(move |problem| (&workload.name, problem));
            problems.flat_map(|(name, problem)| {
                problem.variants.iter().map(move |variant| format!("{name}/{}/{}", problem.name, variant.name))
            })
        });
        let cases: Vec<String> = plan.cases.iter().map(|planned| planned.case.to_string()).collect();
        let told: Vec<String> = told.map(|case| case.split(" → ").next().expect("one").to_owned()).collect();
        assert_eq!(told, cases);
        assert_eq!(outline.names, plan.names());
    }

    #[test]
    fn a_choice_tells_what_it_chose_and_why() {
        let plan =
            plan(&Spec::from_pairs([("case", "attention/fwd/b1,h1,s4,d300/f32/flash")]).expect("valid"), &caps());
        let outline = outline(&plan.expect("one case"));
        let [variant] = &outline.workloads[0].problems[0].variants[..] else { panic!("{outline:?}") };
        assert_eq!(variant.name, "flash → manual");
        assert!(variant.about.contains(": fallback from flash: "), "{}", variant.about);
    }
}

//! A plan in words, by workload: what is shown and kept of it where the workloads themselves are not.

use serde::{Deserialize, Serialize};

use super::{Plan, PlanError, Planned};
use crate::suite::{CPU_VARIANT, all};

/// A plan in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// [`Plan::names`].
    pub names: Vec<String>,
    /// What will run.
    pub workloads: Vec<OfWorkload>,
    /// What will not.
    pub skips: Vec<Skipped>,
}

/// The cases of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfWorkload {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// Its problems, in order.
    pub problems: Vec<OfProblem>,
}

/// The cases of one problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfProblem {
    /// The problem's string without the workload.
    pub name: String,
    /// Words for it.
    pub label: String,
    /// The variants that were asked for.
    pub variants: Vec<OfVariant>,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfVariant {
    /// The variant, and the one that runs in its place.
    pub name: String,
    /// What it is, and why another runs in its place.
    pub about: String,
}

/// A case that will not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its string.
    pub case: String,
    /// Why not.
    pub reason: String,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unplanned {
    /// No case is left of what was asked for.
    NothingMatches(String),
    /// What was asked for does not exist.
    Mistake(String),
    /// The device cannot be used like that.
    NotHere(String),
}

impl Unplanned {
    /// The reason.
    pub fn why(&self) -> &str {
        match self {
            Unplanned::NothingMatches(why) | Unplanned::Mistake(why) | Unplanned::NotHere(why) => why,
        }
    }
}

impl From<PlanError> for Unplanned {
    fn from(error: PlanError) -> Unplanned {
        match error {
            PlanError::NothingMatches(nothing) => Unplanned::NothingMatches(nothing.to_string()),
            other => Unplanned::NotHere(other.to_string()),
        }
    }
}

impl Outline {
    /// How many cases will run.
    pub fn cases(&self) -> usize {
        self.workloads.iter().map(OfWorkload::cases).sum()
    }

    /// Of a plan.
    pub fn of(plan: &Plan) -> Outline {
        let mut workloads = Vec::new();
        for workload in all() {
            let mut problems: Vec<OfProblem> = Vec::new();
            for planned in plan.cases.iter().filter(|planned| planned.case.problem.workload.name == workload.name) {
                let problem = planned.case.problem.to_string();
                let name = problem.split_once('/').map_or(problem.as_str(), |(_, rest)| rest);
                match problems.last_mut().filter(|last| last.name == name) {
                    Some(last) => last.variants.push(OfVariant::of(planned)),
                    None => problems.push(OfProblem {
                        name: name.to_owned(),
                        label: planned.case.problem.label(),
                        variants: vec![OfVariant::of(planned)],
                    }),
                }
            }
            if !problems.is_empty() {
                workloads.push(OfWorkload {
                    name: workload.name.to_owned(),
                    about: workload.about.to_owned(),
                    problems,
                });
            }
        }
        let skipped = |skip: &super::Skip| Skipped { case: skip.case.to_string(), reason: skip.reason.clone() };
        Outline { names: plan.names(), workloads, skips: plan.skips.iter().map(skipped).collect() }
    }
}

impl OfWorkload {
    /// How many cases it has.
    pub fn cases(&self) -> usize {
        self.problems.iter().map(|problem| problem.variants.len()).sum()
    }
}

impl OfVariant {
    fn of(planned: &Planned) -> OfVariant {
        let variant = planned.case.variant;
        let about = planned.case.variant_form().map_or(CPU_VARIANT, |form| form.about);
        let (name, about) = match &planned.actual {
            Some(actual) => (format!("{variant} → {}", actual.variant), format!("{about}: {}", actual.reason)),
            None => (variant.to_owned(), about.to_owned()),
        };
        OfVariant { name, about }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Spec, plan};
    use crate::testing::mock::caps;

    #[test]
    fn an_outline_has_every_case_of_the_plan_once_in_its_order() {
        let shapes = [("shape", "n1,n2"), ("filter", "depthwise_conv2d copy"), ("dtype", "f32")];
        let plan = plan(&Spec::from_pairs(shapes).expect("valid"), &caps()).expect("cases");
        let outline = Outline::of(&plan);
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
        let outline = Outline::of(&plan.expect("one case"));
        let [variant] = &outline.workloads[0].problems[0].variants[..] else { panic!("{outline:?}") };
        assert_eq!(variant.name, "flash → manual");
        assert!(variant.about.contains(": fallback from flash: "), "{}", variant.about);
    }
}

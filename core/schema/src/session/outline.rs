//! A plan in words, by workload, for programs without the workloads themselves.

use serde::{Deserialize, Serialize};

/// Plan in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// Canonical strings of all cases of the plan, in its order.
    pub names: Vec<String>,
    /// Cases that will run, by workload.
    pub workloads: Vec<OfWorkload>,
    /// Cases that will not run.
    pub skips: Vec<Skipped>,
}

/// Cases of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfWorkload {
    /// Name of the workload.
    pub name: String,
    /// Description in one line.
    pub about: String,
    /// Problems in order.
    pub problems: Vec<OfProblem>,
}

/// Cases of one problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfProblem {
    /// String of the problem without the workload.
    pub name: String,
    /// Description of the problem in words.
    pub label: String,
    /// Requested variants.
    pub variants: Vec<OfVariant>,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfVariant {
    /// Name of the variant, and of the variant that runs in its place.
    pub name: String,
    /// Description of the variant, and the reason for another in its place.
    pub about: String,
}

/// Case that will not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// String of the case.
    pub case: String,
    /// Reason for the skip.
    pub reason: String,
}

/// Reason for the lack of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unplanned {
    /// No requested case is left.
    NothingMatches(String),
    /// The request names something that does not exist.
    Mistake(String),
    /// The device cannot be used in the requested way.
    NotHere(String),
}

impl Unplanned {
    /// Returns the reason.
    pub fn why(&self) -> &str {
        match self {
            Unplanned::NothingMatches(why) | Unplanned::Mistake(why) | Unplanned::NotHere(why) => why,
        }
    }
}

impl Outline {
    /// Returns the number of cases that will run.
    pub fn cases(&self) -> usize {
        self.workloads.iter().map(OfWorkload::cases).sum()
    }
}

impl OfWorkload {
    /// Returns the number of its cases.
    pub fn cases(&self) -> usize {
        self.problems.iter().map(|problem| problem.variants.len()).sum()
    }
}

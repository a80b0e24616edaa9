//! Every workload, found by the build script.

use super::Workload;

/// A workload file's function that fills in the form.
type Make = fn() -> Workload;

include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// Every workload, in name order.
pub fn all() -> &'static [Workload] {
    static ALL: std::sync::OnceLock<Vec<Workload>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| TABLE.iter().map(|(name, make)| Workload { name, ..make() }).collect())
}

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Workload> {
    all().iter().find(|w| w.name == name)
}

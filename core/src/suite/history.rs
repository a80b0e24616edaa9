//! What a name meant in files from before it was given to something else.

use super::{DType, Dialect};

/// A variant that was split: for some cases its name stood for what has a name of its own now.
struct Split {
    workload: &'static str,
    variant: &'static str,
    dialect: Dialect,
    dtypes: &'static [DType],
    now: &'static str,
}

const SPLITS: &[Split] = &[Split {
    workload: "attention",
    variant: "flash",
    dialect: Dialect::Cuda,
    dtypes: &[DType::F16, DType::BF16],
    now: "flash_mma, on tensor cores",
}];

/// What a case of this name was in a file from before schema version 3, if that has another name now.
pub fn meant(case: &str, dialect: Dialect) -> Option<&'static str> {
    let mut parts = case.split('/');
    let (workload, dtype, variant) = (parts.next()?, parts.nth(2)?, parts.next()?);
    let fits = |split: &&Split| {
        split.workload == workload
            && split.variant == variant
            && split.dialect == dialect
            && split.dtypes.iter().any(|d| d.name() == dtype)
    };
    SPLITS.iter().find(fits).map(|split| split.now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_split_meant_something_else() {
        let case = "attention/fwd/b1,h1,s4,d2/bf16/flash";
        assert_eq!(meant(case, Dialect::Cuda), Some("flash_mma, on tensor cores"));
        assert_eq!(meant(case, Dialect::Wgsl), None);
        assert_eq!(meant(&case.replace("bf16", "f32"), Dialect::Cuda), None);
        assert_eq!(meant(&case.replace("flash", "manual"), Dialect::Cuda), None);
        assert_eq!(meant("attention", Dialect::Cuda), None);
        let names: Vec<&str> = crate::suite::all().iter().map(|w| w.name).collect();
        assert!(SPLITS.iter().all(|split| names.contains(&split.workload)));
    }
}

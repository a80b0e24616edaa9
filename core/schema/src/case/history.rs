//! Earlier meanings of names, for files from before a name was reassigned.

use super::DType;
use crate::device::Dialect;

/// Variant that was split: for some cases, its name formerly denoted another variant, which has its own name now.
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

/// Returns the present name of a case of this name from before schema version 3, if it has another name now.
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
    }
}

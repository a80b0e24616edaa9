//! Problems and cases, and the canonical string that names a case everywhere.
//!
//! The string is `workload/direction/shape/dtype/variant`, as in `attention/fwd/b1,h8,s512,d64,causal/f16/flash`. It is the
//! command line's filter, the URL query, the table row, the trace label and the key for comparing runs.

use std::fmt;
use std::str::FromStr;

use super::{CaseError, Cost, Problem, Program, Rate, Tunable, Variant, VariantKind, all, named, tunable_key};
use crate::units::Flops;

/// Problem and a variant that computes it.
#[derive(Clone)]
pub struct Case {
    /// Problem.
    pub problem: Problem,
    /// Name of the variant.
    pub variant: &'static str,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.problem, self.variant))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Name of the plain host implementation, a variant of every workload.
pub const CPU_VARIANT: &str = "host";

impl Case {
    /// Returns the variant; `None` for the host implementation.
    pub fn variant_form(&self) -> Option<&'static Variant> {
        self.problem.form().variant(self.variant)
    }

    /// Least cost of its variant: the specification's cost, with the number of operations of the algorithm. The number is zero if
    /// the ceilings of arithmetic do not measure such operations.
    pub fn least_cost(&self) -> Cost {
        let cost = self.problem.cost();
        if self.problem.form().rate == Rate::Ops {
            return Cost { flops: Flops(0), ..cost };
        }
        let fewer = self.variant_form().map_or(1.0, |variant| (variant.fewer)(&self.problem));
        Cost { flops: Flops((cost.flops.0 as f64 / fewer) as u64), ..cost }
    }

    /// Returns the stages that run once for each set of buffers before the first execution, if any.
    pub fn setup(&self, caps: &crate::suite::Caps) -> Option<Program> {
        self.problem.form().setup.map(|setup| setup(&self.problem, caps))
    }

    /// Returns all stages of this case on a device, set-up first, and the number of set-up stages.
    pub fn whole(&self, caps: &crate::suite::Caps) -> Option<(Program, usize)> {
        let execution = self.program(caps)?;
        let Some(mut whole) = self.setup(caps) else { return Some((execution, 0)) };
        let first = whole.stages.len();
        whole.stages.extend(execution.stages.into_iter().map(|mut stage| {
            stage.after.iter_mut().for_each(|earlier| *earlier += first);
            stage
        }));
        Some((whole, first))
    }

    /// Full name of a tunable of its variant.
    pub fn tunable_key(&self, tunable: &Tunable) -> String {
        tunable_key(self.problem.workload.name, self.problem.direction, self.variant, tunable.name)
    }

    /// Tunables of its variant, with their values on a device.
    pub fn settings(&self, caps: &crate::suite::Caps) -> Vec<(&'static str, u32)> {
        let tunables = self.variant_form().map_or(&[][..], |variant| variant.tunables);
        tunables.iter().map(|t| (t.name, caps.tuned(&self.problem, self.variant, t))).collect()
    }

    /// Returns the launches of this case on a device.
    ///
    /// `None` for the host implementation and for selections, which have no launches of their own.
    pub fn program(&self, caps: &crate::suite::Caps) -> Option<Program> {
        match self.variant_form()?.how {
            VariantKind::Kernel { program, .. } => Some(program(&self.problem, caps)),
            VariantKind::Select(_) => None,
        }
    }
}

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(text: &str) -> Result<Case, CaseError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [workload, direction, shape, dtype, variant] = parts[..] else {
            return Err(CaseError::Form(text.to_owned()));
        };
        let workload = named("workload", workload, all().iter().map(|w| (w.name, w)))?;
        let form = named("direction", direction, workload.forms.iter().map(|f| (f.direction.name(), f)))?;
        let dtype = named("dtype", dtype, workload.dtypes.iter().map(|d| (d.name(), *d)))?;
        let variants = form.variants.iter().map(|v| v.name).chain([CPU_VARIANT]);
        let variant = named("variant", variant, variants.map(|v| (v, v)))?;
        Ok(Case { problem: Problem::new(workload, form.direction, shape, dtype)?, variant })
    }
}

/// Workload in the string of a case or problem.
pub fn workload_of(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

/// String of a case without the variant.
pub fn problem_of(case: &str) -> &str {
    case.rsplit_once('/').map_or(case, |(problem, _)| problem)
}

/// Variant in the string of a case.
pub fn variant_of(case: &str) -> &str {
    case.rsplit_once('/').map_or("", |(_, variant)| variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_strings_survive_a_round_trip() {
        for text in [
            "attention/fwd/b1,h8,s512,d64,causal/f16/flash",
            "attention/fwd/b2,h1,s7,t13,d72/f32/manual",
            "depthwise_conv2d/fwd/n8,c64,h512,w96,k3,p1,nhwc/bf16/tiled",
            "hash_embedding/fwd/r100,g7,d64,sorted/f32/auto",
            "attention/fwd/b1,h1,s1,d1/f32/host",
        ] {
            assert_eq!(text.parse::<Case>().map(|c| c.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_needs_fewer_operations_is_held_against_those() {
        let least = |case: &str| case.parse::<Case>().expect("valid").least_cost();
        let at = "conv2d/fwd/n2,c16,h12,k3,p1,nhwc/f32";
        let [direct, winograd, vendor] = ["direct", "winograd", "vendor"].map(|name| least(&format!("{at}/{name}")));
        assert_eq!(4 * winograd.flops.0, direct.flops.0 * 16 / 9);
        assert_eq!((4 * vendor.flops.0, vendor.moved()), (direct.flops.0, direct.moved()));
        assert_eq!(
            least("conv3d/fwd/n1,c2,d4,h5,k3,ndhwc/f32/vendor"),
            least("conv3d/fwd/n1,c2,d4,h5,k3,ndhwc/f32/direct")
        );
        let integers = least("matmul_i8/fwd/m2,n3,k4/f32/dot4");
        assert_eq!((integers.flops.0, integers.moved().0), (0, 8 + 12 + 8 + 12 + 24), "no ceiling is one of integers");
    }

    #[test]
    fn defaults_are_left_out() {
        let case: Case = "attention/fwd/d64,h8,b1,t512,s512/f32/flash".parse().expect("valid");
        assert_eq!(case.to_string(), "attention/fwd/b1,h8,s512,d64/f32/flash");
    }

    #[test]
    fn bad_strings_name_the_part_and_the_choices() {
        for (text, part) in [
            ("attention", "is not a case"),
            ("atention/fwd/b1,h1,s1,d1/f32/flash", "unknown workload `atention`"),
            ("attention/up/b1,h1,s1,d1/f32/flash", "unknown direction `up`"),
            ("attention/fwd/b1,h1,s1,d1/f64/flash", "unknown dtype `f64`"),
            ("attention/fwd/b1,h1,s1,d1/f32/fast", "unknown variant `fast`"),
            ("attention/fwd/b1,h1,s1/f32/flash", "`d` (head dim) is missing"),
            ("attention/fwd/b0,h1,s1,d1/f32/flash", "must be at least 1, not 0"),
            ("attention/fwd/b1,h1,s1,d1,z3/f32/flash", "`z3` means nothing here"),
            ("attention/fwd/b1,b1,h1,s1,d1/f32/flash", "`b` is given twice"),
            ("attention/fwd/b1,h1,s1,d1,casual/f32/flash", "`casual` means nothing here"),
            ("attention/fwd/b1,h99999999999999999999,s1,d1/f32/flash", "is not a name and a number"),
        ] {
            let error = text.parse::<Case>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

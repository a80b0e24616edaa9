//! Problems and cases, and the canonical string that names a case everywhere.
//!
//! The string is `workload/direction/shape/dtype/variant`, as in `attention/fwd/b1,h8,s512,d64,causal/f16/flash`. It is the
//! command line's filter, the URL query, the table row, the trace label and the key for comparing runs.

use std::fmt;

use parallax_schema::case::{Cost, Rate};
use parallax_schema::device::Caps;
use parallax_schema::record::{Items, Parts};
use parallax_schema::units::Flops;

use super::{Problem, Program, Tunable, Variant, VariantKind, tunable_key};

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
    pub fn setup(&self, caps: &Caps) -> Option<Program> {
        self.problem.form().setup.map(|setup| setup(&self.problem, caps))
    }

    /// Returns all stages of this case on a device, set-up first, and the number of set-up stages.
    pub fn whole_program(&self, caps: &Caps) -> Option<(Program, usize)> {
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
    pub fn settings(&self, caps: &Caps) -> Vec<(&'static str, u32)> {
        let tunables = self.variant_form().map_or(&[][..], |variant| variant.tunables);
        tunables.iter().map(|t| (t.name, self.problem.tuned(caps, self.variant, t))).collect()
    }

    /// Returns the launches of this case on a device.
    ///
    /// `None` for the host implementation and for selections, which have no launches of their own.
    pub fn program(&self, caps: &Caps) -> Option<Program> {
        match self.variant_form()?.how {
            VariantKind::Kernel { program, .. } => Some(program(&self.problem, caps)),
            VariantKind::Select(_) => None,
        }
    }
}

impl Case {
    /// Returns the items of one execution, where the workload counts any.
    pub fn items(&self) -> Option<Items> {
        let (name, count) = self.problem.shape.items()?;
        Some(Items { name: name.to_owned(), count })
    }

    /// Returns the parts of its string.
    pub fn parts(&self) -> Parts {
        let Problem { workload, direction, shape, dtype } = &self.problem;
        Parts {
            workload: workload.name.to_owned(),
            direction: direction.name().to_owned(),
            shape: shape.extents().iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            decimals: shape.decimals().map(|(k, v)| (k.to_owned(), v)).collect(),
            options: shape.words().map(str::to_owned).collect(),
            dtype: *dtype,
            variant: self.variant.to_owned(),
        }
    }
}

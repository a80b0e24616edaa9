//! Workloads as parts of larger ones: a transformer layer runs the stages of `attention` and `layernorm` on its own buffers.

use parallax_ir::{BufferSpec, Problem, Stage, VariantKind};
use parallax_schema::case::{DType, Direction};
use parallax_schema::device::Caps;

use super::find;

/// Problem of another workload inside a larger one, of the same element type.
pub struct SubOp {
    problem: Problem,
}

impl SubOp {
    /// Returns the problem of a workload at a shape.
    ///
    /// # Panics
    /// Invalid problem: a mistake in the larger workload, which must refuse such shapes itself.
    pub fn new(workload: &str, direction: Direction, shape: &str, dtype: DType) -> SubOp {
        let found = find(workload).unwrap_or_else(|| panic!("no workload `{workload}`"));
        let problem = Problem::new(found, direction, shape, dtype);
        SubOp { problem: problem.unwrap_or_else(|why| panic!("{workload}/{}/{shape}: {why}", direction.name())) }
    }

    /// Returns the problem itself, for the functions that a larger reference needs.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Checks whether a variant can compute it on this device.
    ///
    /// # Errors
    /// Reason why it cannot.
    ///
    /// # Panics
    /// Unknown variant of kernels.
    pub fn available(&self, variant: &str, caps: &Caps) -> Result<(), String> {
        let Some(VariantKind::Kernel { dialects, available, .. }) =
            self.problem.form().variant(variant).map(|v| &v.how)
        else {
            panic!("{} has no variant `{variant}` of kernels", self.problem)
        };
        match dialects.contains(&caps.dialect) {
            true => available(&self.problem, caps),
            false => Err(format!("`{variant}` has no kernel for this target")),
        }
    }

    /// Returns the first of these variants that can compute it.
    ///
    /// # Panics
    /// No such variant: the plainest variant of a specification always can.
    pub fn best(&self, variants: &[&'static str], caps: &Caps) -> &'static str {
        let can = |variant: &&&str| self.available(variant, caps).is_ok();
        variants.iter().find(can).unwrap_or_else(|| panic!("no variant computes {}", self.problem))
    }

    /// Returns the stages of a variant. Each pair is one of its buffers and the replacement from the larger problem. Other
    /// buffers keep their names.
    ///
    /// # Panics
    /// Unknown variant.
    pub fn stages(&self, variant: &str, caps: &Caps, buffers: &[(&'static str, &'static str)]) -> Vec<Stage> {
        let Some(VariantKind::Kernel { program, .. }) = self.problem.form().variant(variant).map(|v| &v.how) else {
            panic!("{} has no variant `{variant}` of kernels", self.problem)
        };
        let stages = program(&self.problem, caps).stages;
        stages.into_iter().map(|stage| stage.on_buffers(buffers)).collect()
    }

    /// Returns the stages of its set-up, with the same replacement of buffers.
    pub fn setup(&self, caps: &Caps, buffers: &[(&'static str, &'static str)]) -> Vec<Stage> {
        let stages = self.problem.form().setup.map_or(Vec::new(), |setup| setup(&self.problem, caps).stages);
        stages.into_iter().map(|stage| stage.on_buffers(buffers)).collect()
    }

    /// Returns one of its buffers as scratch of the larger problem, under another name.
    ///
    /// # Panics
    /// Unknown buffer.
    pub fn scratch(&self, buffer: &str, name: &'static str) -> BufferSpec {
        let specs = self.problem.buffers();
        let spec = specs.iter().find(|spec| spec.name == buffer);
        let spec = spec.unwrap_or_else(|| panic!("{} has no buffer `{buffer}`", self.problem));
        BufferSpec::scratch(name, spec.elem, &spec.dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::caps;

    #[test]
    fn stages_of_another_workload_run_on_buffers_of_the_larger_one() {
        let inner = SubOp::new("attention", Direction::Fwd, "b1,h2,s5,d8", DType::F32);
        let stages = inner.stages("manual", &caps(), &[("q", "mine"), ("out", "scores"), ("scores", "out")]);
        let buffers = |stage: &Stage| stage.args.iter().map(|arg| (arg.parameter, arg.buffer)).collect::<Vec<_>>();
        assert_eq!(buffers(&stages[0]), [("scores", "out"), ("q", "mine"), ("k", "k")]);
        assert_eq!(buffers(&stages[2]), [("scores", "out"), ("v", "v"), ("out", "scores")]);
        let scratch = inner.scratch("scores", "theirs");
        assert_eq!((scratch.name, &scratch.dims[..]), ("theirs", &[1, 2, 5, 5][..]));
    }

    #[test]
    fn the_best_variant_is_the_first_that_the_device_has() {
        let inner = SubOp::new("attention", Direction::Fwd, "b1,h2,s5,d300", DType::F32);
        assert!(inner.available("flash", &caps()).is_err_and(|why| why.contains("head_dim 300")));
        assert_eq!(inner.best(&["flash_mma", "flash", "manual"], &caps()), "manual");
    }
}

//! The translator that backends use.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use parallax_ir::{Recipe, Translated, Translator, Untranslated};
use parallax_schema::units::Nanos;
use web_time::Instant;

use crate::cubek;
use crate::definition::Definition;
use crate::emit::{Emitted, emit};
use crate::kernels::KERNELS;

/// Returns the translator of the kernels here, the same one for the whole program.
pub fn translator() -> Arc<dyn Translator> {
    static ONE: OnceLock<Arc<CubeCl>> = OnceLock::new();
    ONE.get_or_init(Arc::default).clone()
}

/// Translator that translates each kernel once. CubeCL may lay out workgroup memory in another order the next time, and backends
/// find binaries by their source.
#[derive(Default)]
struct CubeCl {
    known: Mutex<HashMap<String, Result<Translated, Untranslated>>>,
}

impl Translator for CubeCl {
    fn translate(&self, recipe: &Recipe) -> Result<Translated, Untranslated> {
        let key = format!("{recipe:?}");
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&key) {
            return known.clone();
        }
        let made = CubeCl::make(recipe);
        // If two threads translated it at once, the first result holds for both.
        known().entry(key).or_insert(made).clone()
    }
}

impl CubeCl {
    fn make(recipe: &Recipe) -> Result<Translated, Untranslated> {
        let define = KERNELS.iter().find(|(name, _)| *name == recipe.name).map(|(_, define)| define);
        if define.is_none() && !cubek::knows(&recipe.name) {
            return Err(Untranslated::Failed(format!("there is no kernel `{}` in CubeCL", recipe.name)));
        }
        let make = || {
            let begun = Instant::now();
            let (definition, mut launch, first) = match define {
                Some(define) => {
                    let mut definition = Definition::new(recipe);
                    define(&mut definition);
                    (definition.finish(), None, "CubeCL expand")
                }
                None => {
                    let (definition, chosen) = cubek::planned(recipe)?;
                    (definition, Some(chosen), "CubeK plan and expand")
                }
            };
            let expanded = Instant::now();
            let Emitted { text, shared_bytes } = emit(definition, recipe.dialect)?;
            let steps = [(first, expanded - begun), ("CubeCL emit", expanded.elapsed())];
            let steps = steps.map(|(step, took)| (step.to_owned(), Nanos::from_secs(took.as_secs_f64())));
            if let Some(launch) = &mut launch {
                launch.shared_bytes = u32::try_from(shared_bytes).expect("less memory than a device has");
            }
            Ok(Translated { text, steps: steps.into(), launch })
        };
        // CubeCL panics at unsupported constructs. The kernel then does not compile, but the run goes on.
        catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            Err(Untranslated::Failed(said.unwrap_or_else(|| "it ended without a word".to_owned())))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use parallax_ir::{Case, Kernel, Problem, Program, Recipe, Stage};
    use parallax_schema::case::{CUBE_VARIANT, DType};
    use parallax_schema::device::Dialect;
    use parallax_schema::testing::caps;
    use parallax_workloads::all;

    /// Kernels of every variant in CubeCL, at every awkward shape.
    fn kernels() -> Vec<Kernel> {
        let mut found = Vec::new();
        for (workload, form) in all().iter().flat_map(|w| w.forms.iter().map(move |form| (w, form))) {
            for shape in form.awkward.iter().filter(|_| form.variant(CUBE_VARIANT).is_some()) {
                let problem = Problem::new(workload, form.direction, shape, DType::F32).expect("a shape of its own");
                let program = Case { problem, variant: CUBE_VARIANT }.program(&caps()).expect("a kernel variant");
                found.extend(program.kernels().cloned());
            }
        }
        found
    }

    #[test]
    fn every_kernel_is_some_stages_and_every_stage_has_one() {
        let asked: BTreeSet<&str> = kernels().iter().map(|kernel| kernel.text).collect();
        let there: BTreeSet<&str> = KERNELS.iter().map(|(name, _)| *name).collect();
        assert_eq!(asked, there);
    }

    #[test]
    fn a_kernel_is_the_same_text_each_time_and_says_what_it_took() {
        let kernels = kernels();
        for (name, _) in KERNELS {
            let kernel = kernels.iter().find(|kernel| kernel.text == *name).expect("used");
            for (dialect, entry) in [(Dialect::Wgsl, format!("fn {name}(")), (Dialect::Cuda, format!("  {name}("))] {
                let translator = translator();
                let [one, two] =
                    [(); 2].map(|()| translator.translate(&Recipe::new(kernel, DType::F32, dialect)).expect("a text"));
                assert_eq!(one.text, two.text, "{name}");
                assert!(one.text.contains(&entry), "{name}: {}", one.text);
                let steps: Vec<&str> = one.steps.iter().map(|(step, _)| step.as_str()).collect();
                assert_eq!(steps, ["CubeCL expand", "CubeCL emit"]);
            }
        }
    }

    #[test]
    fn buffers_are_bound_in_order_and_nothing_else_is() {
        let of = |stage: Stage, dialect| {
            let program: Program = stage.into();
            let kernel = program.kernels().next().expect("a kernel").clone();
            translator().translate(&Recipe::new(&kernel, DType::F32, dialect)).expect("a text").text
        };
        let copy = || Stage::cube_over("cube_copy", 9).consts(&[("WIDTH", 4)]).consts(&[("WORDS", true)]);
        let wgsl = of(copy(), Dialect::Wgsl);
        assert!(
            wgsl.contains("@binding(0) var<storage, read> ") && wgsl.contains("@binding(1) var<storage, read_write> ")
        );
        assert!(!wgsl.contains("@binding(2)") && !wgsl.contains("info"), "{wgsl}");
        let cuda = of(copy(), Dialect::Cuda);
        let parameters = cuda.split("  cube_copy(").nth(1).and_then(|rest| rest.split(')').next()).expect("an entry");
        let parameters: Vec<&str> = parameters.split(", ").collect();
        assert_eq!(parameters.len(), 2, "{cuda}");
        assert!(parameters[0].contains("const*") && !parameters[1].contains("const*"), "{cuda}");
    }

    #[test]
    fn what_cannot_be_made_is_told_and_ends_nothing() {
        let refused = |stage: Stage, dialect| {
            let program: Program = stage.into();
            let kernel = program.kernels().next().expect("a kernel").clone();
            translator().translate(&Recipe::new(&kernel, DType::F32, dialect)).expect_err("cannot be made")
        };
        let unknown = refused(Stage::cube("no_such"), Dialect::Wgsl).to_string();
        assert_eq!(unknown, "there is no kernel `no_such` in CubeCL");
        let incomplete = refused(Stage::cube("cube_copy"), Dialect::Wgsl).to_string();
        assert!(incomplete.contains("cube_copy has no constant"), "{incomplete}");
    }
}

//! Lists of cases for the tests, and results kept between runs.
#![forbid(unsafe_code)]

use parallax_workloads::tunables;

pub mod memo;
pub mod replay;

use parallax_engine::plan::buffer_access::check_access;
use parallax_engine::plan::runs_as_asked;
use parallax_ir::{Case, KernelSources, Problem, VariantKind};
use parallax_schema::case::{DType, Tuning};
use parallax_schema::device::Caps;

/// Returns whether all cases are tested, not only those that a change needs: `./x test --all`.
pub fn everything() -> bool {
    std::env::var_os("PARALLAX_TESTS").is_some_and(|tier| tier == "all")
}

/// WGSL sources: the program's own, with CubeCL's compilers if compiled in.
pub fn wgsl_texts() -> KernelSources {
    let own = parallax_shaders::source::embedded();
    #[cfg(feature = "cube")]
    let own = own.translated_by(parallax_cube::translator());
    own
}

/// Every problem of every workload at its awkward shapes, for the element types of the given device.
pub fn awkward_problems(caps: &Caps) -> Vec<Problem> {
    let mut problems = Vec::new();
    for workload in parallax_workloads::all() {
        for form in &workload.forms {
            for dtype in workload.dtypes.iter().filter(|d| caps.dtypes.contains(d)) {
                problems.extend(form.awkward.iter().map(|shape| {
                    Problem::new(workload, form.direction, shape, *dtype)
                        .unwrap_or_else(|e| panic!("awkward shape of {}: {e}", workload.name))
                }));
            }
        }
    }
    problems
}

/// Every available kernel variant of these problems in the target's dialect, with buffers that the target can address.
pub fn kernel_cases(problems: Vec<Problem>, caps: &Caps) -> Vec<Case> {
    let variants = |problem: Problem| {
        let offered = problem.form().variants.iter().filter_map(|variant| match variant.how {
            VariantKind::Kernel { dialects, available, .. } if dialects.contains(&caps.dialect) => {
                available(&problem, caps).ok().map(|()| variant.name)
            }
            _ => None,
        });
        offered.map(|variant| Case { problem: problem.clone(), variant }).collect::<Vec<_>>()
    };
    let touches = |case: &Case| {
        let whole = case.whole_program(caps);
        whole.is_none_or(|(program, _)| check_access(&case.problem, program.stages.iter(), caps).is_ok())
    };
    problems.into_iter().flat_map(variants).filter(touches).collect()
}

/// Every case of an element type at an awkward shape for each variant with tunables. One tunable at a time has a value other than
/// the default, on a device that can run it.
pub fn tuned_cases(caps: &Caps, dtype: DType) -> Vec<(Caps, Case)> {
    let mut found = Vec::new();
    let one_type = Caps { dtypes: vec![dtype], ..caps.clone() };
    for case in kernel_cases(awkward_problems(&one_type), &one_type) {
        for tunable in case.variant_form().map_or(&[][..], |variant| variant.tunables) {
            for value in tunable.allowed.candidates().into_iter().filter(|value| *value != tunable.default) {
                let mut tuning = Tuning::default();
                tunables::set(&mut tuning, &case.tunable_key(tunable), value).expect("a candidate is allowed");
                let tuned = Caps { tuning, ..caps.clone() };
                if runs_as_asked(&case, &tuned).is_ok() {
                    found.push((tuned, case.clone()));
                }
            }
        }
    }
    found
}

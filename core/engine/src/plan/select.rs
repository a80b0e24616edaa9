//! Cases that a spec requests on a device, before any check: the named ones, or those of a preset.

use parallax_ir::{Case, OpSpec, Problem, Workload};
use parallax_schema::case::{CPU_VARIANT, CaseError, DType, Direction, Preset};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::spec::Spec;
use parallax_workloads::{parse_case, parse_problem};

use super::sweep;

/// Returns every requested case, in order. The plan applies the filters.
///
/// # Errors
/// Requested extents that make no problem.
pub(super) fn selected_cases(spec: &Spec, caps: &Caps) -> Result<Vec<Case>, CaseError> {
    if spec.names_cases() { exactly(spec, caps) } else { from_preset(spec, caps) }
}

/// Returns the named cases, and those of the named problems.
fn exactly(spec: &Spec, caps: &Caps) -> Result<Vec<Case>, CaseError> {
    let mut cases: Vec<Case> = spec.case.iter().map(|text| parse_case(text)).collect::<Result<_, _>>()?;
    for text in &spec.problem {
        let problem = parse_problem(text)?;
        let names = wanted_variants(spec, problem.form(), caps);
        cases.extend(names.into_iter().map(|variant| Case { problem: problem.clone(), variant }));
    }
    Ok(cases)
}

/// Names of the variants that exist for a device and that the spec asks for: all, where it names none.
fn wanted_variants(spec: &Spec, form: &OpSpec, caps: &Caps) -> Vec<&'static str> {
    let names = match caps.dialect {
        Dialect::Cpu => vec![CPU_VARIANT],
        _ => form.variants.iter().map(|v| v.name).collect(),
    };
    let wanted = |name: &&str| spec.variant.is_empty() || spec.variant.iter().any(|v| v == name);
    names.into_iter().filter(wanted).collect()
}

fn from_preset(spec: &Spec, caps: &Caps) -> Result<Vec<Case>, CaseError> {
    let mut cases = Vec::new();
    for workload in parallax_workloads::all().iter().filter(|workload| belongs(workload, spec, caps)) {
        let wanted = |form: &&OpSpec| match spec.direction.is_empty() {
            true => !(glances(spec) && form.direction == Direction::Bwd),
            false => spec.direction.contains(&form.direction),
        };
        for form in workload.forms.iter().filter(wanted) {
            let shapes = sweep::shapes(&spec.shape, workload.axes, form.preset(spec.preset));
            for shape in &shapes {
                for dtype in workload.dtypes {
                    cases.extend(of_problem(spec, caps, workload, form, shape, *dtype)?);
                }
            }
            let scaling = workload.scaling().filter(|_| spec.scaling == Some(true));
            // These shapes also need the type of the host's computation.
            for shape in scaling.map(|(_, scaling)| scaling.shapes_in(caps.dialect)).unwrap_or_default() {
                cases.extend(of_problem(spec, caps, workload, form, &shape, DType::F32)?);
            }
        }
    }
    Ok(cases)
}

/// Whether a device's presets have a workload: collectives on a group of GPUs, all others on one device. A filter that names the
/// workload keeps it anyway, so that the plan states why it cannot run.
fn belongs(workload: &Workload, spec: &Spec, caps: &Caps) -> bool {
    let names = |filter: &String| filter.split(['/', ',', '*']).any(|word| word == workload.name);
    workload.spans_gpus() == (caps.ranks > 1) || spec.filter.iter().any(names)
}

/// Whether this is the first look at a device, about a minute long. Backward passes and bf16, which no browser has, then come
/// only with other presets or on request.
fn glances(spec: &Spec) -> bool {
    spec.preset == Preset::Quick && spec.filter.is_empty() && spec.shape.is_empty()
}

fn of_problem(
    spec: &Spec,
    caps: &Caps,
    workload: &'static Workload,
    form: &OpSpec,
    shape: &str,
    dtype: DType,
) -> Result<Vec<Case>, CaseError> {
    let dtype_wanted = spec.dtype.is_empty() || spec.dtype.contains(&dtype);
    // WGSL has no bf16, and lacks nothing by it. It is planned, and then skipped, only on request.
    let dispensable = glances(spec) || !caps.dtypes.contains(&dtype);
    let dtype_silent = spec.dtype.is_empty() && dtype == DType::BF16 && dispensable;
    if !dtype_wanted || dtype_silent {
        return Ok(Vec::new());
    }
    let names = wanted_variants(spec, form, caps);
    match Problem::new(workload, form.direction, shape, dtype) {
        // The presets of one device have no shapes of a group, except for collectives, which have no others.
        Ok(problem) if problem.gpus() > 1 && caps.ranks <= 1 && !workload.spans_gpus() && spec.shape.is_empty() => {
            Ok(Vec::new())
        }
        Ok(problem) => Ok(names.into_iter().map(|variant| Case { problem: problem.clone(), variant }).collect()),
        Err(mistake) if spec.shape.is_empty() => panic!("preset of {}: {mistake}", workload.name),
        // An extent may be wrong for workloads that the filters leave out. That is no error of the request.
        Err(mistake) => {
            let text =
                |name: &&str| format!("{}/{}/{shape}/{}/{name}", workload.name, form.direction.name(), dtype.name());
            if names.iter().any(|name| spec.keeps(&text(name))) { Err(mistake) } else { Ok(Vec::new()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::{Plan, plan};
    use parallax_schema::testing::{caps, hopper};

    fn planned(pairs: &[(&str, &str)], caps: &Caps) -> Plan {
        plan(&Spec::from_pairs(pairs.iter().copied()).expect("valid"), caps).expect("cases")
    }

    #[test]
    fn a_first_look_is_short_and_what_is_asked_for_is_whole() {
        for (pairs, backward, bf16) in [
            (&[][..], false, false),
            (&[("variant", "fused")], false, false),
            (&[("dtype", "bf16")], false, true),
            (&[("direction", "bwd")], true, false),
            (&[("filter", "softmax")], true, true),
            (&[("preset", "standard")], true, true),
        ] {
            let plan = planned(pairs, &hopper());
            let has = |keep: fn(&Problem) -> bool| plan.cases.iter().any(|planned| keep(&planned.case.problem));
            assert_eq!(has(|problem| problem.direction == Direction::Bwd), backward, "{pairs:?}");
            assert_eq!(has(|problem| problem.dtype == DType::BF16), bf16, "{pairs:?}");
        }
    }

    #[test]
    fn a_problem_is_planned_in_every_wanted_variant() {
        let plan = planned(&[("problem", "softmax/fwd/c4,r4/f32"), ("case", "copy/fwd/n8/f32/scalar")], &caps());
        let form = parallax_workloads::find("softmax").and_then(|w| w.form(Direction::Fwd)).expect("registered");
        assert_eq!(plan.names().len(), form.variants.len() + 1, "{:?}", plan.names());
        let chosen = planned(&[("problem", "softmax/fwd/r4,c4/f32"), ("variant", "online")], &caps());
        assert_eq!(chosen.names(), ["softmax/fwd/r4,c4/f32/online"]);
        let unknown = plan_of(&[("problem", "softmax/fwd/r4,c4/f32/online")]).expect_err("a case");
        assert!(unknown.contains("is not a problem"), "{unknown}");
    }

    fn plan_of(pairs: &[(&str, &str)]) -> Result<Plan, String> {
        plan(&Spec::from_pairs(pairs.iter().copied()).expect("valid"), &caps()).map_err(|e| e.to_string())
    }

    #[test]
    fn collectives_are_planned_on_groups_of_gpus_and_alone_there() {
        let group = Caps { ranks: 2, ..hopper() };
        for (preset, device, collectives, others) in [
            ("quick", &hopper(), false, true),
            ("full", &hopper(), false, true),
            ("full", &caps(), false, true),
            ("quick", &group, true, false),
            ("full", &group, true, false),
        ] {
            let plan = planned(&[("preset", preset)], device);
            let all = plan.cases.iter().map(|p| &p.case).chain(plan.skips.iter().map(|s| &s.case));
            let kinds: BTreeSet<bool> = all.map(|case| case.problem.workload.spans_gpus()).collect();
            assert_eq!((kinds.contains(&true), kinds.contains(&false)), (collectives, others), "{preset}");
            assert!(!collectives || plan.skips.is_empty(), "{:?}", plan.skips);
        }
    }

    #[test]
    fn a_collective_without_its_gpus_is_skipped_with_the_reason() {
        let host = Caps { dialect: Dialect::Cpu, dtypes: vec![DType::F32], ..caps() };
        let group = Caps { ranks: 2, ..hopper() };
        for (pairs, device, said) in [
            (("filter", "all_reduce"), &hopper(), "needs 2 GPUs, this target drives 1: `--target cuda --gpus 2`"),
            (("filter", "all_reduce"), &caps(), "GPUs exchange data through NCCL"),
            (("case", "all_to_all/fwd/n12,gpus3/f32/nccl"), &group, "needs 3 GPUs, this target drives 2"),
            (("filter", "copy"), &group, "a group of 2 GPUs runs workloads with the axis `gpus` only"),
        ] {
            let plan = planned(&[pairs], device);
            assert!(plan.cases.is_empty() && !plan.skips.is_empty(), "{pairs:?}");
            assert!(plan.skips.iter().all(|skip| skip.reason.contains(said)), "{:?}", plan.skips);
        }
        let plan = planned(&[("filter", "all_reduce"), ("dtype", "f32")], &host);
        assert!(plan.skips.is_empty() && plan.cases.iter().all(|p| p.case.variant == CPU_VARIANT), "{plan:?}");
        let sizes = planned(&[("filter", "all_gather"), ("dtype", "f32"), ("shape", "gpus2,gpus4")], &group);
        assert_eq!((sizes.cases.len(), sizes.skips.len()), (1, 1), "{sizes:?}");
    }

    #[test]
    fn training_on_several_gpus_is_planned_on_a_group_that_has_them() {
        let group = Caps { ranks: 2, ..hopper() };
        let asked = [("filter", "train_step"), ("preset", "full")];
        let spans = |plan: &Plan| -> BTreeSet<u64> { plan.cases.iter().map(|p| p.case.problem.gpus()).collect() };
        let (alone, both) = (planned(&asked, &hopper()), planned(&asked, &group));
        assert_eq!((spans(&alone), spans(&both)), ([1].into(), [1, 2].into()));
        assert!(alone.skips.iter().all(|skip| skip.case.problem.gpus() == 1), "{:?}", alone.skips);
        let why = |plan: &Plan| plan.skips.iter().map(|skip| skip.reason.clone()).collect::<BTreeSet<_>>();
        let one = "one GPU has no gradients to exchange";
        assert_eq!(why(&alone), [one.to_owned()].into());
        assert!(why(&both).iter().any(|why| why.contains("needs 4 GPUs, this target drives 2")), "{:?}", why(&both));
        let named = planned(&[("filter", "train_step"), ("shape", "gpus2")], &hopper());
        assert!(named.cases.is_empty() && why(&named).iter().all(|why| why.contains("needs 2 GPUs")), "{named:?}");
    }

    #[test]
    fn directions_keep_the_forms_that_have_them() {
        for (pairs, kept) in [
            (&[("direction", "fwd")][..], &["fwd"][..]),
            (&[("direction", "bwd"), ("direction", "fwd+bwd")], &["bwd", "fwd+bwd"]),
            (&[("direction", "fwd+bwd"), ("filter", "encoder_layer")], &["fwd+bwd"]),
            // A named case includes its direction, and so does a named problem.
            (
                &[("direction", "bwd"), ("problem", "softmax/bwd/r4,c4/f32"), ("problem", "copy/fwd/n8/f32")],
                &["bwd", "fwd"],
            ),
            (&[("direction", "bwd"), ("case", "copy/fwd/n8/f32/scalar")], &["fwd"]),
        ] {
            let plan = planned(pairs, &caps());
            let all = plan.cases.iter().map(|p| &p.case).chain(plan.skips.iter().map(|s| &s.case));
            let found: BTreeSet<&str> = all.map(|case| case.problem.direction.name()).collect();
            assert_eq!(found, kept.iter().copied().collect(), "{pairs:?}");
        }
    }
}

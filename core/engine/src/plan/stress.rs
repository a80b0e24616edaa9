//! Planning of a case on stress inputs: on each applicable set, except those that its variant excludes.

use parallax_ir::{Case, StressInput};

use super::planned::{Actual, Planned, Skip};

/// Returns one planned case per set of stress inputs, and one skip with the reasons of all excluded sets.
pub(super) fn with_stress_inputs(case: Case, actual: &Option<Actual>) -> (Vec<Planned>, Option<Skip>) {
    let form = case.problem.form();
    let not_on = form.variant(case.variant).map_or(&[][..], |variant| variant.not_on);
    let exempt = |stress: &StressInput| not_on.iter().find(|not_on| not_on.sets.contains(&stress.name));
    let sets = form.stress.iter().filter(|stress| (stress.applies)(&case.problem));
    let (left_out, sets): (Vec<_>, Vec<_>) = sets.partition(|stress| exempt(stress).is_some());
    let planned = |stress| Planned { case: case.clone(), actual: actual.clone(), stress: Some(stress) };
    let cases = sets.into_iter().map(planned).collect();
    let reason =
        |stress: &StressInput| exempt(stress).map(|not_on| format!("not on [{}]: {}", stress.name, not_on.reason));
    let reasons: Vec<String> = left_out.into_iter().filter_map(reason).collect();
    (cases, (!reasons.is_empty()).then(|| Skip { case, reason: reasons.join("; ") }))
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Planned, plan};
    use parallax_schema::device::Caps;
    use parallax_schema::spec::Spec;
    use parallax_schema::testing::{caps, hopper};

    fn planned(pairs: &[(&str, &str)], caps: &Caps) -> Plan {
        plan(&Spec::from_pairs(pairs.iter().copied()).expect("valid"), caps).expect("cases")
    }

    #[test]
    fn hard_inputs_that_a_library_is_not_right_on_are_one_skip_with_every_reason() {
        let case = "attention/fwd/b5,h2,s35,t101,d64,padded/f16/vendor";
        let plan = planned(&[("inputs", "hard"), ("case", case)], &hopper());
        let names: Vec<String> = plan.cases.iter().map(Planned::name).collect();
        assert!(names.contains(&format!("{case} [nan]")), "{names:?}");
        assert!(!names.iter().any(|name| name.ends_with("[unread]") || name.ends_with("[empty]")), "{names:?}");
        let [skip] = &plan.skips[..] else { panic!("one skip: {:?}", plan.skips) };
        assert_eq!(skip.case.to_string(), case);
        assert!(skip.reason.starts_with("not on [unread]: cuDNN ") && skip.reason.contains("; not on [empty]: "));
    }

    #[test]
    fn hard_inputs_are_lines_of_their_own_where_they_apply() {
        let masked = "attention/fwd/b1,h1,s5,t3,d4,causal/f32/manual";
        let open = "attention/fwd/b1,h1,s5,t3,d4/f32/manual";
        let plan = planned(&[("inputs", "hard"), ("case", masked), ("case", open)], &caps());
        let names: Vec<String> = plan.cases.iter().map(Planned::name).collect();
        assert!(
            names.contains(&format!("{masked} [masked]")) && names.contains(&format!("{open} [zeros]")),
            "{names:?}"
        );
        assert!(!names.contains(&format!("{open} [masked]")) && !names.contains(&open.to_owned()), "{names:?}");
        let zeros = plan.cases.iter().find(|p| p.name() == format!("{open} [zeros]")).expect("listed");
        assert_eq!(zeros.inputs(1).at(0, 3), 0.0);
    }
}

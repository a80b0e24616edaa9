//! Checks of settings against the workloads: cases, variants and tunables.

use std::collections::BTreeSet;

use parallax_schema::case::{CPU_VARIANT, Tuning, named};
use parallax_schema::spec::settings::{Setting, setting};
use parallax_schema::spec::{Spec, SpecError};
use parallax_workloads::{all, parse_case, tunables};

/// Returns every variant of every workload, in alphabetical order.
pub fn variants() -> Vec<&'static str> {
    let known = all().iter().flat_map(|w| &w.forms).flat_map(|f| &f.variants).map(|v| v.name);
    known.chain([CPU_VARIANT]).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Sets a value in a spec, after a check against the workloads; a repeatable setting keeps earlier values.
///
/// # Errors
/// An invalid value, or a case, variant or tunable that no workload has.
pub fn set(setting: &Setting, spec: &mut Spec, value: &str) -> Result<(), SpecError> {
    match setting.name {
        "case" => setting.set(spec, &parse_case(value)?.to_string()),
        "variant" => {
            named("variant", value, variants().into_iter().map(|known| (known, known)))?;
            setting.set(spec, value)
        }
        "set" => {
            tunables::assign(&mut Tuning::default(), value)?;
            setting.set(spec, value)
        }
        _ => setting.set(spec, value),
    }
}

/// Parses (key, value) pairs, as in a URL query, and checks them against the workloads.
///
/// # Errors
/// An unknown setting, or an invalid value.
pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Spec, SpecError> {
    let mut spec = Spec::default();
    for (key, value) in pairs {
        set(setting(key)?, &mut spec, value)?;
    }
    Ok(spec)
}

/// Returns the same spec after a check against the workloads.
///
/// # Errors
/// The same errors as of [`from_pairs`].
pub fn checked(spec: &Spec) -> Result<Spec, SpecError> {
    let pairs = spec.to_pairs();
    from_pairs(pairs.iter().map(|(key, value)| (*key, value.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use parallax_schema::case::workload_of;
    use parallax_schema::device::Caps;
    use parallax_schema::testing::caps;

    #[test]
    fn a_quick_look_has_its_cases() {
        for emulated in [false, true] {
            let plan = plan(&Spec::quick_look(emulated), &caps()).expect("a plan");
            let names: Vec<String> = plan.cases.iter().map(|case| case.name()).collect();
            assert_eq!(names.len(), Spec::LOOKED_AT, "{names:?}");
            let looks = &Spec::quick_look(false).filter;
            assert!(looks.iter().all(|look| names.iter().any(|name| workload_of(name) == workload_of(look))));
        }
    }

    #[test]
    fn mistakes_name_the_key_and_what_would_do() {
        for (key, value, part) in [
            ("variant", "flush", "unknown variant `flush`: did you mean `flash`? choose one of "),
            ("case", "attention", "is not a case"),
            ("set", "DEPHT=8", "unknown tunable `DEPHT`: "),
        ] {
            let error = from_pairs([(key, value)]).expect_err(value).to_string();
            assert!(error.contains(part), "{key}={value}: {error}");
            let unchecked = Spec::from_pairs([(key, value)]).expect("a text");
            assert!(checked(&unchecked).is_err(), "{key}={value}");
        }
        let spec = from_pairs([("case", "attention/fwd/d64,h8,b1,t512,s512/f32/flash"), ("variant", "flash")]);
        assert_eq!(spec.expect("valid").case, ["attention/fwd/b1,h8,s512,d64/f32/flash"]);
    }

    #[test]
    fn selections_follow_the_tunables_of_the_device() {
        const THRESHOLD: &str = "hash_embedding.auto.OWNER_ROWS";
        let case = parse_case("hash_embedding/fwd/r100000,g8333,d64,sorted/f32/auto").expect("valid");
        let actual = |caps: &Caps| {
            let spec = Spec { case: vec![case.to_string()], ..Default::default() };
            plan(&spec, caps).expect("a case").cases[0].runs().variant
        };
        assert_eq!(actual(&caps()), "shared");
        let mut tuned = caps();
        tunables::assign(&mut tuned.tuning, &format!("{THRESHOLD}=200000")).expect("in range");
        assert_eq!(actual(&tuned), "owner");
        assert_eq!(case.settings(&tuned), [("OWNER_ROWS", 200_000), ("SHARED_ROWS", 100_000)]);
    }
}

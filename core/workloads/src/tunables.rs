//! Tunables of all workloads, and values for them by name.

use parallax_ir::{Tunable, tunable_key};
use parallax_schema::case::{Tuning, TuningError, choices};

use crate::all;

/// Tunable with its full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTunable {
    /// Full name: `workload.variant.NAME`, with the direction before the variant if it is not `fwd`.
    pub key: String,
    /// Tunable.
    pub tunable: &'static Tunable,
}

/// Returns the tunables of every workload.
pub fn tunables() -> Vec<KnownTunable> {
    let mut known = Vec::new();
    for workload in all() {
        for form in &workload.forms {
            for variant in &form.variants {
                known.extend(variant.tunables.iter().map(|tunable| KnownTunable {
                    key: tunable_key(workload.name, form.direction, variant.name, tunable.name),
                    tunable,
                }));
            }
        }
    }
    known
}

/// Sets a value of a tuning. A full name denotes one variant's tunable. A name without dots denotes every variant's tunable of that name.
///
/// # Errors
/// Unknown name, or a value that one of the tunables does not allow; nothing changes then.
pub fn set(tuning: &mut Tuning, name: &str, value: u32) -> Result<(), TuningError> {
    let known = tunables();
    let meant: Vec<&KnownTunable> = known.iter().filter(|k| k.key == name || k.tunable.name == name).collect();
    if meant.is_empty() {
        let choices = choices(name, known.iter().map(|k| k.key.as_str()));
        return Err(TuningError::Unknown { name: name.to_owned(), choices });
    }
    if let Some(KnownTunable { key, tunable }) = meant.iter().find(|k| !k.tunable.allowed.has(value)) {
        let Tunable { about, allowed, .. } = **tunable;
        return Err(TuningError::Value { key: key.clone(), about, value, allowed });
    }
    meant.into_iter().for_each(|k| tuning.insert(k.key.clone(), value));
    Ok(())
}

/// Sets a value from NAME=VALUE.
///
/// # Errors
/// Errors of [`set`], and a string of another form.
pub fn assign(tuning: &mut Tuning, text: &str) -> Result<(), TuningError> {
    let form = || TuningError::Form(text.to_owned());
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    set(tuning, name.trim(), value.trim().parse().map_err(|_| form())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::case::meant;
    use parallax_schema::device::Dialect;
    use parallax_schema::testing::caps;

    const THRESHOLD: &str = "hash_embedding.auto.OWNER_ROWS";

    #[test]
    fn every_tunable_has_a_name_of_its_own_and_a_default_that_it_may_have() {
        let known = tunables();
        assert!(known.iter().any(|k| k.key == THRESHOLD), "{known:?}");
        let mut keys: Vec<&str> = known.iter().map(|k| k.key.as_str()).collect();
        keys.dedup();
        assert_eq!(keys.len(), known.len());
        for KnownTunable { key, tunable } in &known {
            assert!(tunable.allowed.has(tunable.default), "{key}");
            assert!(!tunable.about.is_empty() && tunable.name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
            let candidates = tunable.allowed.candidates();
            assert!(candidates.len() > 1 && candidates.is_sorted(), "{key}: {candidates:?}");
            assert!(candidates.iter().all(|value| tunable.allowed.has(*value)), "{key}: {candidates:?}");
        }
    }

    #[test]
    fn names_are_full_or_mean_every_variant() {
        let mut tuning = Tuning::default();
        assign(&mut tuning, "matmul.tiled.DEPTH = 8").expect("a choice");
        assert_eq!(tuning.values().collect::<Vec<_>>(), [("matmul.tiled.DEPTH", 8)]);
        assign(&mut tuning, "DEPTH=32").expect("a choice of all");
        let depths: Vec<(&str, u32)> = tuning.values().collect();
        assert_eq!(depths, [("attention.flash.DEPTH", 32), ("matmul.tiled.DEPTH", 32)]);
    }

    #[test]
    fn mistakes_name_what_would_do_and_change_nothing() {
        let mut tuning = Tuning::default();
        for (text, part) in [
            ("DEPTH", "is not NAME=VALUE"),
            ("DEPTH=deep", "is not NAME=VALUE"),
            ("DEPHT=8", "choose one of attention.flash.DEPTH"),
            ("attention.flush.DEPTH=8", "unknown tunable"),
            ("matmul.tiled.DEPTH=7", "cannot be 7: it is one of"),
            ("hash_embedding.auto.OWNER_ROWS=-1", "is not NAME=VALUE"),
        ] {
            let error = assign(&mut tuning, text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(tuning.is_empty());
    }

    #[test]
    fn programs_follow_the_device() {
        let tiled = parse_case("matmul/fwd/m64,n64,k64/f32/tiled").expect("valid");
        let mut tuned = caps();
        assign(&mut tuned.tuning, "DEPTH=8").expect("a choice");
        assert_ne!(tiled.program(&tuned), tiled.program(&caps()));
    }

    #[test]
    fn the_split_name_is_a_variant_of_its_workload() {
        let mut found = Vec::new();
        for workload in all() {
            let variants = workload.forms.iter().flat_map(|form| &form.variants);
            let split = |name: &str| meant(&format!("{}/fwd/x/f16/{name}", workload.name), Dialect::Cuda).is_some();
            found.extend(variants.filter(|variant| split(variant.name)).map(|variant| (workload.name, variant.name)));
        }
        found.dedup();
        assert_eq!(found, [("attention", "flash")]);
    }
}

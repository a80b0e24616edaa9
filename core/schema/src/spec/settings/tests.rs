use std::collections::BTreeSet;

use super::*;
use crate::spec::setting_values::SWITCH;

#[test]
fn names_are_told_apart_and_defaults_can_be_written() {
    let names: BTreeSet<&str> = SETTINGS.iter().map(|s| s.name).collect();
    assert_eq!(names.len(), SETTINGS.len());
    for setting in SETTINGS {
        let mut spec = Spec::default();
        assert!(setting.repeatable || setting.default().len() <= 1, "{}", setting.name);
        let sentence = |text: &str| !text.ends_with('.') && !text.starts_with(char::is_lowercase);
        assert!(sentence(setting.about) && sentence(setting.more), "{}", setting.name);
        for value in setting.default() {
            setting.set(&mut spec, &value).expect(setting.name);
        }
        assert_eq!(spec, Spec::default(), "{}", setting.name);
    }
}

#[test]
fn every_word_is_taken_and_given_back() {
    for setting in SETTINGS {
        let known = match setting.values {
            Values::Words(words) => words(),
            Values::Switch => words(SWITCH),
            Values::Number(_) | Values::Text(_) => continue,
        };
        for word in known {
            let mut spec = Spec::default();
            setting.set(&mut spec, word).expect(word);
            assert_eq!(setting.get(&spec), [word], "{}", setting.name);
        }
    }
}

#[test]
fn words_that_are_not_offered_exist() {
    for setting in SETTINGS {
        let Some(control) = &setting.control else { continue };
        let Values::Words(words) = setting.values else {
            assert!(control.unoffered.is_empty(), "{}", setting.name);
            continue;
        };
        assert!(control.unoffered.iter().all(|word| words().contains(word)), "{}", setting.name);
    }
}

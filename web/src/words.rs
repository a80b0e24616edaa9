//! Figures and fragments in words, without a document and without a clock.

/// Seconds in words, rounded as befits an estimate.
pub fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 2.0 => "a second".to_owned(),
        s if s < 20.0 => format!("{} s", s.ceil()),
        s if s < 100.0 => format!("{} s", (s / 5.0).ceil() * 5.0),
        s => format!("{} min", (s / 60.0).ceil()),
    }
}

/// From so many seconds to so many, in words: one figure where rounding leaves one.
pub fn between(low: f64, high: f64) -> String {
    let (unit, step) = match high {
        s if s < 20.0 => ("s", 1.0),
        s if s < 100.0 => ("s", 5.0),
        _ => ("min", 60.0),
    };
    let scale = if unit == "min" { 60.0 } else { 1.0 };
    let [least, most] = [(low / step).floor().max(1.0), (high / step).ceil().max(1.0)].map(|n| n * step / scale);
    match least < most {
        // Less than a minute of several is not "1 to 3 min".
        true if unit == "min" && low < 45.0 => format!("{} s to {most} min", ((low / 5.0).floor() * 5.0).max(1.0)),
        true => format!("{least} to {most} {unit}"),
        false => format!("about {most} {unit}"),
    }
}

/// A moment in the words of the browser's language, from milliseconds since 1970.
pub fn moment(milliseconds: f64) -> String {
    let date = js_sys::Date::new(&milliseconds.into());
    date.to_locale_string("default", &wasm_bindgen::JsValue::UNDEFINED).into()
}

/// So many cases.
pub fn count(cases: usize) -> String {
    if cases == 1 { "1 case".to_owned() } else { format!("{cases} cases") }
}

/// A fragment as a sentence: a capital first, a full stop last. Nothing stays nothing.
pub fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    match letters.next() {
        Some(first) if fragment.ends_with('.') => first.to_uppercase().chain(letters).collect(),
        Some(first) => first.to_uppercase().chain(letters).chain(['.']).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_round() {
        for (seconds, words) in [(0.3, "a second"), (7.2, "8 s"), (41.0, "45 s"), (99.0, "100 s"), (130.0, "3 min")] {
            assert_eq!(rough(seconds), words);
        }
    }

    #[test]
    fn ranges_are_round_and_wide_enough() {
        for (low, high, words) in [
            (0.3, 0.9, "about 1 s"),
            (7.2, 11.5, "7 to 12 s"),
            (26.0, 41.0, "25 to 45 s"),
            (25.0, 25.0, "about 25 s"),
            (31.0, 130.0, "30 s to 3 min"),
            (65.0, 130.0, "1 to 3 min"),
            (2.0, 130.0, "1 s to 3 min"),
            (121.0, 179.0, "2 to 3 min"),
        ] {
            assert_eq!(between(low, high), words);
        }
    }

    #[test]
    fn fragments_become_sentences_once() {
        for (fragment, whole) in
            [("it waits", "It waits."), ("Done.", "Done."), ("`a` is faster", "`a` is faster."), ("", "")]
        {
            assert_eq!(sentence(fragment), whole);
        }
        assert_eq!((count(1), count(2)), ("1 case".to_owned(), "2 cases".to_owned()));
    }
}

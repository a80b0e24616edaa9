//! Text of figures and fragments, without a document and without a clock.

use parallax_schema::units::counted;

/// Approximate duration as text, rounded like an estimate.
pub fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 2.0 => "a second".to_owned(),
        s if s < 20.0 => format!("{} s", s.ceil()),
        s if s < 100.0 => format!("{} s", (s / 5.0).ceil() * 5.0),
        s => format!("{} min", (s / 60.0).ceil()),
    }
}

/// Local date and time as text, from milliseconds since 1970.
pub fn moment(milliseconds: f64) -> String {
    let date = js_sys::Date::new(&milliseconds.into());
    date.to_locale_string("default", &wasm_bindgen::JsValue::UNDEFINED).into()
}

/// Number of cases as text.
pub fn count(cases: usize) -> String {
    counted(cases, "case")
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
    fn cases_are_counted() {
        assert_eq!((count(1), count(2)), ("1 case".to_owned(), "2 cases".to_owned()));
    }
}

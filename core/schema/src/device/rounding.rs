//! Number of digits in written figures: no more than the precision of their source.

use serde::{Serialize, Serializer};

use crate::units::{Nanos, significant};

/// Significant digits of a time. The rounding error is at most half a millionth, below the resolution of any clock here.
const TIME: usize = 7;

/// Significant digits of a sensor reading.
const READING: usize = 4;

/// Returns a time rounded as in a file.
pub fn time(value: f64) -> f64 {
    significant(value, TIME)
}

/// Serialises a time.
pub fn of_time<S: Serializer>(value: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time(value.0))
}

/// Serialises a time given as a plain number.
pub fn of_number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time(*value))
}

/// Serialises times, without fractions of zero.
pub fn of_times<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Written {
        Whole(i64),
        Fraction(f64),
    }
    let written = |value: &f64| match time(*value) {
        whole if whole.fract() == 0.0 && whole.abs() < 1e15 => Written::Whole(whole as i64),
        other => Written::Fraction(other),
    };
    serializer.collect_seq(values.iter().map(written))
}

/// Serialises an instant, rounded to the nanosecond.
pub fn whole_time<S: Serializer>(value: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.0.round())
}

/// Serialises a sensor reading.
pub fn of_reading<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|v| significant(v, READING)).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_below_a_millionth_and_happens_once() {
        for value in [9_047.402_777, 1.0 / 3.0, 123_456_789.123, 7888.875, 0.0, 1e-9] {
            let once = time(value);
            assert!((once - value).abs() <= 1e-6 * value.abs(), "{value} {once}");
            assert_eq!(time(once), once);
            let text = serde_json::to_string(&once).expect("a number");
            assert_eq!(serde_json::from_str::<f64>(&text).expect("a number"), once);
        }
    }
}

//! Values of settings: parsing, and places in a spec.

use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{LONGEST_BUDGET, SpecError};
use crate::case::{Direction, named};

/// Values of a switch.
pub(super) const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// Parses `on` or `off`.
pub(super) fn switch(name: &'static str, value: &str) -> Result<bool, SpecError> {
    Ok(named(name, value, SWITCH)?)
}

/// Returns `on` or `off`.
pub(super) fn on_off(on: bool) -> Vec<String> {
    vec![if on { "on" } else { "off" }.to_owned()]
}

/// Sets a value that was parsed.
pub(super) fn put<T, E: Into<SpecError>>(place: &mut T, value: Result<T, E>) -> Result<(), SpecError> {
    *place = value.map_err(E::into)?;
    Ok(())
}

/// Adds a value that was parsed.
pub(super) fn push<T, E: Into<SpecError>>(list: &mut Vec<T>, value: Result<T, E>) -> Result<(), SpecError> {
    list.push(value.map_err(E::into)?);
    Ok(())
}

/// Adds a value that only the workloads can check.
pub(super) fn add(list: &mut Vec<String>, value: &str) -> Result<(), SpecError> {
    list.push(value.to_owned());
    Ok(())
}

/// Names of known values.
pub(super) fn words<T>(known: impl IntoIterator<Item = (&'static str, T)>) -> Vec<&'static str> {
    known.into_iter().map(|(name, _)| name).collect()
}

/// Returns every direction with its name.
pub(super) fn directions() -> [(&'static str, Direction); 3] {
    Direction::ALL.map(|direction| (direction.name(), direction))
}

/// Parses a whole number of a range.
pub(super) fn whole<T: FromStr + PartialOrd>(
    key: &'static str,
    value: &str,
    range: RangeInclusive<T>,
    wanted: &'static str,
) -> Result<T, SpecError> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| SpecError::Number { key: key.to_owned(), value: value.to_owned(), wanted })
}

/// Parses a finite number above zero.
pub(super) fn positive(key: &'static str, value: &str, wanted: &'static str) -> Result<f64, SpecError> {
    match value.parse::<f64>() {
        Ok(v) if v.is_finite() && v > 0.0 => Ok(v),
        _ => Err(SpecError::Number { key: key.to_owned(), value: value.to_owned(), wanted }),
    }
}

/// Parses a duration that a run can be given.
pub(super) fn seconds(key: &'static str, value: &str) -> Result<f64, SpecError> {
    let wanted = "a number of seconds above 0, a year (31536000) at most";
    match positive(key, value, wanted)? {
        seconds if seconds <= LONGEST_BUDGET => Ok(seconds),
        _ => Err(SpecError::Number { key: key.to_owned(), value: value.to_owned(), wanted }),
    }
}

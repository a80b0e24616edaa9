//! Serialisation of lists of objects by column.
//!
//! Thousands of sensor readings, one object each, consist mostly of field names and unchanged values. By column, a name is
//! written once, and a column takes the shortest of a few forms. Lists of objects, as in older files, are read too.
//!
//! A few bytes of a file could promise any number of rows. Rows are therefore read one after another from the columns as written
//! (`rows`). Together they take no more memory than `room` allows for the length of the input.

mod room;
mod rows;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use room::within;

/// List of objects, by column. Fields of nested objects are columns too, under both names with a dot between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Columns {
    /// Number of objects.
    rows: usize,
    /// Columns by field name; null in a row without the field. A field that all rows lack has no column.
    columns: BTreeMap<String, Column>,
}

/// Values of one field, in the shortest of these forms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Column {
    /// One value, the same in every row.
    All(Value),
    /// One value for each row.
    Each(Vec<Value>),
    /// Values, each with the number of consecutive rows that have it.
    Runs(Vec<(Value, usize)>),
    /// Integers: the first, and then the difference of each to the one before.
    Steps(Vec<i64>),
    /// Few distinct values, and for each row the zero-based index of its value.
    Words(Vec<Value>, Vec<usize>),
}

/// Writes a list by column.
pub fn serialize<T: Serialize, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    Columns::of(list).map_err(S::Error::custom)?.serialize(serializer)
}

/// Reads a list by column, or a list of objects.
///
/// # Errors
/// Columns that contradict each other, a field that does not fit its type, and a list that exceeds the memory of [`within`].
pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let own = room::heap(&value);
    room::or_within(own, || match value {
        Value::Array(objects) => rows::of_objects(objects),
        other => rows::of_columns(serde_json::from_value(other)?),
    })
    .map_err(D::Error::custom)
}

impl Columns {
    fn of<T: Serialize>(list: &[T]) -> Result<Columns, serde_json::Error> {
        let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (row, thing) in list.iter().enumerate() {
            let Value::Object(fields) = serde_json::to_value(thing)? else {
                return Err(broken("only objects have columns"));
            };
            flatten("", fields, &mut |name, value| {
                let column = columns.entry(name).or_insert_with(|| vec![Value::Null; list.len()]);
                column[row] = whole(value);
            });
        }
        columns.retain(|_, column| column.iter().any(|v| !v.is_null()));
        let columns = columns.into_iter().map(|(name, column)| (name, Column::of(column))).collect();
        Ok(Columns { rows: list.len(), columns })
    }
}

fn broken(why: impl std::fmt::Display) -> serde_json::Error {
    <serde_json::Error as serde::de::Error>::custom(why)
}

/// Passes every field that is not an object to `take`, under its full name.
fn flatten(before: &str, fields: Map<String, Value>, take: &mut impl FnMut(String, Value)) {
    for (name, value) in fields {
        let name = format!("{before}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}."), inner, take),
            value => take(name, value),
        }
    }
}

/// Returns numbers without a fraction as integers.
fn whole(value: Value) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && number.abs() < EXACT => (number as i64).into(),
        _ => value,
    }
}

impl Column {
    /// Returns the shortest form of at least one value.
    fn of(values: Vec<Value>) -> Column {
        let mut runs: Vec<(Value, usize)> = Vec::new();
        let mut words: Vec<Value> = Vec::new();
        let mut at = Vec::new();
        for value in &values {
            match runs.last_mut() {
                Some((last, count)) if last == value => *count += 1,
                _ => runs.push((value.clone(), 1)),
            }
            // A look-up of each value takes long if most are distinct, and this form is then not the shortest.
            if words.len() <= 16 {
                at.push(words.iter().position(|w| w == value).unwrap_or_else(|| {
                    words.push(value.clone());
                    words.len() - 1
                }));
            }
        }
        if let [(value, _)] = &runs[..] {
            return Column::All(value.clone());
        }
        let whole: Option<Vec<i64>> = values.iter().map(Value::as_i64).collect();
        let steps = whole.and_then(|numbers| {
            let mut last = 0i64;
            numbers.into_iter().map(|n| n.checked_sub(std::mem::replace(&mut last, n))).collect::<Option<Vec<i64>>>()
        });
        let words = (at.len() == values.len()).then_some(Column::Words(words, at));
        let forms = [Some(Column::Runs(runs)), steps.map(Column::Steps), words, Some(Column::Each(values))];
        let length = |column: &Column| serde_json::to_string(column).map_or(usize::MAX, |text| text.len());
        forms.into_iter().flatten().min_by_key(length).expect("there is always the last form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Conditions;
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Look {
        at: f64,
        name: String,
        #[serde(default)]
        conditions: Conditions,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Looks(#[serde(with = "super")] Vec<Look>);

    fn looks(n: u32) -> Looks {
        let one = |i: u32| Look {
            at: 1e9 + 1000.0 * f64::from(i),
            name: ["encode", "wait"][i as usize % 2].to_owned(),
            conditions: Conditions {
                sm_clock_mhz: Some(1980.0),
                temperature_c: Some(if i < n / 2 { 38.0 } else { 38.5 }),
                power_w: Some(100.5 + f64::from(i * i % 7)),
                ..Conditions::default()
            },
            note: (i == 1).then(|| "once".to_owned()),
        };
        Looks((0..n).map(one).collect())
    }

    #[test]
    fn every_column_takes_its_shortest_form_and_comes_back() {
        let list = looks(40);
        let value = serde_json::to_value(&list).expect("JSON");
        let columns = &value["columns"];
        assert_eq!(value["rows"], 40);
        assert_eq!(columns["conditions.sm_clock_mhz"], json!({"all": 1980}));
        assert_eq!(columns["conditions.temperature_c"], json!({"runs": [[38, 20], [38.5, 20]]}));
        assert_eq!([&columns["at"]["steps"][0], &columns["at"]["steps"][1]], [1_000_000_000, 1000]);
        assert_eq!(columns["name"]["words"][0], json!(["encode", "wait"]));
        assert_eq!(columns["note"]["runs"][1], json!(["once", 1]));
        assert!(columns["conditions.memory_clock_mhz"].is_null());
        assert_eq!(serde_json::from_value::<Looks>(value).expect("its own reader"), list);
        for n in [0, 1, 2] {
            let text = serde_json::to_string(&looks(n)).expect("JSON");
            assert_eq!(serde_json::from_str::<Looks>(&text).expect("its own reader"), looks(n));
        }
    }
}

//! Conversion from columns to rows. Each row is read from the columns as written. A value is copied only if the row's type has a
//! field for it.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use super::{Column, Columns, broken, room};

/// Bytes per field of a row while it is read, whether or not its type has the field.
const CELL: usize = 8;
/// Largest depth of nested objects, more than any list has. Unbounded nesting overruns the stack.
const DEEPEST: usize = 16;
/// Bytes of the longest string in a row: mangled names of kernels have a few thousand.
const LONGEST_TEXT: usize = 16 << 10;
/// Characters of a column's name in a message.
const NAMED: usize = 40;

/// Returns the rows of a list written as objects.
pub(super) fn of_objects<T: DeserializeOwned>(objects: Vec<Value>) -> Result<Vec<T>, Error> {
    room::take(objects.len().saturating_mul(size_of::<T>()))?;
    let row = |object: Value| {
        make_room(&object)?;
        serde_json::from_value(object)
    };
    objects.into_iter().map(row).collect()
}

/// Reserves memory for the copy of a value.
fn make_room(value: &Value) -> Result<(), Error> {
    fn longest(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(longest).max().unwrap_or(0),
            Value::Object(fields) => fields.values().map(longest).max().unwrap_or(0),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }
    match longest(value) {
        bytes if bytes > LONGEST_TEXT => {
            Err(broken(format!("a list has a text of {bytes} bytes; the longest can have {LONGEST_TEXT}")))
        }
        _ => room::take(room::heap(value)),
    }
}

/// Returns the rows of a list written by column.
pub(super) fn of_columns<T: DeserializeOwned>(Columns { rows, columns }: Columns) -> Result<Vec<T>, Error> {
    let mut sound = Vec::new();
    for (name, column) in columns {
        if name.split('.').count() > DEEPEST {
            return Err(broken(format!("a column lies deeper than {DEEPEST} objects")));
        }
        let column = Values::of(column, rows).map_err(|why| {
            let name: String = name.chars().take(NAMED).collect();
            broken(format!("column `{name}` {why}"))
        })?;
        sound.push((name, column));
    }
    // The reservation precedes any allocation for rows that a broken file promises.
    room::take(rows.saturating_mul(sound.len().saturating_mul(CELL).saturating_add(size_of::<T>())))?;
    let mut list = Vec::with_capacity(rows);
    for row in 0..rows {
        list.push(T::deserialize(Row { columns: &sound, before: 0, row })?);
    }
    Ok(list)
}

/// Values of a column, one for each row.
enum Values {
    /// One value, the same in every row.
    All(Value),
    /// One value for each row.
    Each(Vec<Value>),
    /// Values, each with the row before which it ends.
    Runs(Vec<(Value, usize)>),
    /// Integers.
    Whole(Vec<i64>),
    /// Distinct values, and the index of each row's value.
    Words(Vec<Value>, Vec<usize>),
}

/// One field of one row.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Value(&'a Value),
    Whole(i64),
}

impl Values {
    /// Converts a column with a value for each row.
    fn of(column: Column, rows: usize) -> Result<Values, String> {
        let (values, has) = match column {
            Column::All(value) => (Values::All(value), rows),
            Column::Each(values) => {
                let has = values.len();
                (Values::Each(values), has)
            }
            Column::Runs(mut runs) => {
                let mut end = 0usize;
                for (_, count) in &mut runs {
                    end = end.saturating_add(*count);
                    *count = end;
                }
                (Values::Runs(runs), end)
            }
            Column::Steps(mut steps) => {
                let mut sum = 0i64;
                for step in &mut steps {
                    sum = sum.checked_add(*step).ok_or("has a number that is too large")?;
                    *step = sum;
                }
                let has = steps.len();
                (Values::Whole(steps), has)
            }
            Column::Words(words, at) => {
                if at.iter().any(|i| *i >= words.len()) {
                    return Err("has a value that is not there".to_owned());
                }
                let has = at.len();
                (Values::Words(words, at), has)
            }
        };
        if has == rows { Ok(values) } else { Err(format!("does not have {rows} rows")) }
    }

    /// Returns the value of a row; `None` in a row without the field.
    fn at(&self, row: usize) -> Option<Cell<'_>> {
        let value = match self {
            Values::All(value) => value,
            Values::Each(values) => &values[row],
            Values::Runs(runs) => &runs[runs.partition_point(|(_, end)| *end <= row)].0,
            Values::Whole(numbers) => return Some(Cell::Whole(numbers[row])),
            Values::Words(words, at) => &words[at[row]],
        };
        (!value.is_null()).then_some(Cell::Value(value))
    }
}

/// One row, or an object within it: columns with a common name prefix, in the order of their names.
#[derive(Clone, Copy)]
struct Row<'a> {
    columns: &'a [(String, Values)],
    /// Bytes of the common name prefix, which identifies the object.
    before: usize,
    row: usize,
}

impl<'a> Row<'a> {
    /// Whether any of its fields is present.
    fn is_there(&self) -> bool {
        self.columns.iter().any(|(_, values)| values.at(self.row).is_some())
    }
}

impl<'de> Deserializer<'de> for Row<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { rest: self, next: None })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

/// Present fields of a row. Absent fields are omitted, so that the reader applies its default.
struct Fields<'a> {
    /// Fields not read yet.
    rest: Row<'a>,
    /// Value of the last name that was read.
    next: Option<Field<'a>>,
}

#[derive(Clone, Copy)]
enum Field<'a> {
    Cell(Cell<'a>),
    Object(Row<'a>),
}

impl<'a> Fields<'a> {
    /// Returns the next present field, with its name.
    fn advance(&mut self) -> Option<(&'a str, Field<'a>)> {
        loop {
            let Row { columns, before, row } = self.rest;
            let (name, values) = columns.first()?;
            let inner = &name[before..];
            let (name, field, taken) = match inner.split_once('.') {
                None => (inner, values.at(row).map(Field::Cell), 1),
                Some((outer, _)) => {
                    let whole = &name[..before + outer.len() + 1];
                    let alike = columns.iter().take_while(|(name, _)| name.starts_with(whole)).count();
                    let object = Row { columns: &columns[..alike], before: whole.len(), row };
                    (outer, object.is_there().then_some(Field::Object(object)), alike)
                }
            };
            self.rest.columns = &columns[taken..];
            if let Some(field) = field {
                return Some((name, field));
            }
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, field)) = self.advance() else { return Ok(None) };
        self.next = Some(field);
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.next.take().ok_or_else(|| broken("a value without a name"))? {
            Field::Cell(cell) => seed.deserialize(cell),
            Field::Object(object) => seed.deserialize(object),
        }
    }
}

impl<'a> Cell<'a> {
    /// Returns the value, after memory for its copy is reserved.
    fn counted(self) -> Result<Cell<'a>, Error> {
        match self {
            Cell::Value(value) => make_room(value)?,
            Cell::Whole(_) => {}
        }
        Ok(self)
    }
}

impl<'de> Deserializer<'de> for Cell<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.counted()? {
            Cell::Value(value) => value.deserialize_any(visitor),
            Cell::Whole(number) => visitor.visit_i64(number),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.counted()? {
            Cell::Value(value) => value.deserialize_enum(name, variants, visitor),
            Cell::Whole(number) => Err(Error::invalid_type(Unexpected::Signed(number), &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

#[cfg(test)]
mod tests {
    use super::super::within;
    use crate::device::Conditions;
    use crate::record::Drift;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Look {
        at: f64,
        name: String,
        #[serde(default)]
        conditions: Conditions,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Looks(#[serde(with = "super::super")] Vec<Look>);

    #[derive(Deserialize)]
    struct Drifts(#[serde(with = "super::super")] Vec<Drift>);

    /// Reads a list within the memory limit of an input of `length` bytes.
    fn read_in(length: usize, list: &Value) -> Result<Looks, serde_json::Error> {
        within(length, || serde_json::from_value(list.clone()))
    }

    /// Reads a list that is the whole input.
    fn read(list: &Value) -> Result<Looks, serde_json::Error> {
        read_in(list.to_string().len(), list)
    }

    #[test]
    fn lists_of_objects_are_read_and_broken_columns_refused() {
        let old = json!([{"at": 1.5, "name": "x", "conditions": {"power_w": 3.0}}]);
        let read: Looks = serde_json::from_value(old).expect("an older file");
        assert_eq!((read.0[0].at, read.0[0].conditions.power_w), (1.5, Some(3.0)));
        for column in [
            json!({"each": [1]}),
            json!({"runs": [[1, 2], [2, u64::MAX]]}),
            json!({"words": [["a"], [0, 0, 1]]}),
            json!({"steps": [i64::MAX, 1, 1]}),
            json!({"all": "x"}),
        ] {
            let broken = json!({"rows": 3, "columns": {"at": column, "name": {"all": "x"}}});
            assert!(serde_json::from_value::<Looks>(broken.clone()).is_err(), "{broken}");
        }
        let (at, name) = (json!({"all": 1}), json!({"all": "x"}));
        for rows in [1 << 24, u64::MAX] {
            let alike = json!({"rows": rows, "columns": {"at": at, "name": name}});
            assert!(serde_json::from_value::<Looks>(alike).is_err(), "{rows} rows in a few bytes");
            let short = json!({"rows": rows, "columns": {"at": at, "name": {"each": ["x"]}}});
            assert!(serde_json::from_value::<Looks>(short).is_err(), "{rows} rows of which there is one");
        }
        let deep = json!({"rows": 1, "columns": {"at": at, "name": name, ".".repeat(100_000): {"all": 1}}});
        assert!(serde_json::from_value::<Looks>(deep).is_err(), "an object for every dot");
    }

    #[test]
    fn a_few_bytes_promise_no_rows_in_whatever_form() {
        let all = |value: Value| json!({"all": value});
        let runs = |value: Value| json!({"runs": [[value, 65_536]]});
        let text = "x".repeat(10_000);
        for (form, at, name) in [
            ("short texts", all(json!(1)), all(json!("x"))),
            ("long texts", all(json!(1)), all(json!(text))),
            ("runs", runs(json!(1)), runs(json!(text))),
            ("runs of nothing", json!({"runs": [[1, 0], [2, 65_536]]}), all(json!("x"))),
        ] {
            let bomb = json!({"rows": 65_536, "columns": {"at": at, "name": name}});
            let why = read(&bomb).expect_err(form).to_string();
            assert!(why.contains("longer than the file"), "{form}: {why}");
        }
        let indices = vec![0; 5000];
        for (form, name) in [("words", json!({"words": [[text], indices]})), ("all", all(json!(text)))] {
            let many = json!({"rows": 5000, "columns": {"at": {"steps": indices}, "name": name}});
            assert!(read(&many).is_err(), "one long text in each of 5000 rows: {form}");
        }
        let nested = all(json!(vec!["x".repeat(99); 99]));
        let within = json!({"rows": 5000, "columns": {"at": {"steps": indices}, "name": all(json!("x")),
            "conditions.throttle": nested}});
        assert!(read(&within).is_err(), "a list in each row");
        let bare = json!({"rows": 1_000_000, "columns": {}});
        let rows = serde_json::from_value::<Drifts>(bare).map(|list| list.0.len());
        assert!(rows.is_err(), "rows without columns");
        let long = json!({"rows": 1, "columns": {"at": all(json!(1)), "name": all(json!("x".repeat(20_000)))}});
        assert!(read(&long).expect_err("too long a text").to_string().contains("20000 bytes"));
        let old = json!([{"at": 1, "name": "x".repeat(20_000)}]);
        assert!(read(&old).expect_err("too long a text").to_string().contains("20000 bytes"));
    }

    #[test]
    fn several_lists_share_the_room_of_their_file() {
        let list = json!({"rows": 2000, "columns": {"at": {"all": 1}, "name": {"all": "x"}}});
        let lists = |n: usize| within(10_000, || (0..n).all(|_| serde_json::from_value::<Looks>(list.clone()).is_ok()));
        assert!(lists(1) && !lists(9), "nine lists of 2000 rows in 10 kB");
        assert!(lists(1), "the next file has its own room");
        assert!(serde_json::from_value::<Looks>(list).is_ok(), "a list of its own");
    }

    #[test]
    fn an_unknown_column_is_passed_over_and_copied_nowhere() {
        let text = "x".repeat(30_000);
        let rows = 2000;
        let indices = vec![0; rows];
        for unknown in [
            json!({"all": text}),
            json!({"all": vec![&text; 9]}),
            json!({"runs": [[text, rows]]}),
            json!({"words": [[text], indices]}),
        ] {
            let columns = json!({"at": {"steps": indices}, "name": {"all": "x"}, "x": unknown,
                "conditions.x": unknown, "new.x.y": unknown});
            let list = json!({"rows": rows, "columns": columns});
            // 2000 copies of 30 kB exceed this memory limit.
            let read = read_in(10_000, &list).expect("known columns are read");
            assert_eq!(read.0.len(), rows);
            assert!(read.0.iter().all(|look| look.name == "x" && look.conditions == Conditions::default()));
        }
        let crowd: serde_json::Map<String, Value> = (0..2000).map(|i| (format!("x{i}"), json!({"all": 1}))).collect();
        let mut list = json!({"rows": 60_000, "columns": crowd});
        list["columns"]["at"] = json!({"all": 1});
        list["columns"]["name"] = json!({"all": "x"});
        assert!(read(&list).is_err(), "120 million fields to pass over");
    }

    #[test]
    fn what_was_measured_has_room() {
        // Sensor readings of 2000 samples without a change: one word for all of them, beside two columns of 2000 values.
        let constant = json!({"rows": 2000, "columns": {"at": {"all": 1}, "name": {"all": "x"},
            "conditions.sm_clock_mhz": {"all": 1980}, "conditions.power_w": {"all": 70},
            "conditions.throttle": {"all": ["SW power cap"]}}});
        let read = read_in(2 * 2000 * 7, &constant).expect("as we write it");
        assert_eq!(read.0[1999].conditions.throttle, ["SW power cap"]);
    }
}

//! Rows as a Parquet file. The schema of a column follows from its row's type, so that files of different runs have equal columns.

use std::sync::Arc;

use anyhow::Context;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::Value;

/// Kind of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flag,
    Whole,
    Real,
    Text,
}

impl Kind {
    /// Returns the kind of a property of a JSON Schema. Types of their own are enumerations of words.
    fn of(property: &Value) -> Kind {
        let types = match &property["type"] {
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            one => Vec::from_iter(one.as_str()),
        };
        match types.iter().find(|name| **name != "null") {
            Some(&"boolean") => Kind::Flag,
            Some(&"integer") => Kind::Whole,
            Some(&"number") => Kind::Real,
            _ => Kind::Text,
        }
    }

    fn physical(self) -> Physical {
        match self {
            Kind::Flag => Physical::BOOLEAN,
            Kind::Whole => Physical::INT64,
            Kind::Real => Physical::DOUBLE,
            Kind::Text => Physical::BYTE_ARRAY,
        }
    }
}

/// Returns rows as a Parquet file with one optional column for each field.
///
/// # Errors
/// Row that is no JSON object, or error of the writer.
pub fn file<Row: Serialize + JsonSchema>(rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let schema = schema_for!(Row).to_value();
    let properties = schema["properties"].as_object().context("a row has no fields")?;
    let columns: Vec<(&str, Kind)> = properties.iter().map(|(name, of)| (name.as_str(), Kind::of(of))).collect();
    let values = rows.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
    let fields = columns.iter().map(|(name, kind)| {
        let text = (*kind == Kind::Text).then_some(LogicalType::String);
        let of = Type::primitive_type_builder(name, kind.physical()).with_logical_type(text);
        Ok(Arc::new(of.with_repetition(Repetition::OPTIONAL).build()?))
    });
    let fields = fields.collect::<anyhow::Result<Vec<_>>>()?;
    let message = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, message, properties)?;
    let mut group = writer.next_row_group()?;
    for (name, kind) in &columns {
        let mut column = group.next_column()?.context("the file has fewer columns than its schema")?;
        fill(&mut column, *kind, values.iter().map(|row| &row[*name]))?;
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

/// Writes the values of a column. Values of another kind, and numbers that JSON lacks, are absent.
fn fill<'v>(
    column: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    values: impl Iterator<Item = &'v Value>,
) -> anyhow::Result<()> {
    /// Returns the present values, and 1 or 0 for each row.
    fn present<'v, T>(
        values: impl Iterator<Item = &'v Value>,
        of: impl Fn(&'v Value) -> Option<T>,
    ) -> (Vec<T>, Vec<i16>) {
        let all: Vec<Option<T>> = values.map(of).collect();
        let levels = all.iter().map(|value| i16::from(value.is_some())).collect();
        (all.into_iter().flatten().collect(), levels)
    }
    match kind {
        Kind::Flag => {
            let (values, levels) = present(values, Value::as_bool);
            column.typed::<BoolType>().write_batch(&values, Some(&levels), None)?;
        }
        Kind::Whole => {
            let (values, levels) = present(values, Value::as_i64);
            column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        Kind::Real => {
            let (values, levels) = present(values, Value::as_f64);
            column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
        }
        Kind::Text => {
            let (values, levels) = present(values, |value| value.as_str().map(ByteArray::from));
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use parallax_report::sheet::{SampleRow, SheetRow, rows, samples};
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{run, spread};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    const COPY: &str = "copy/fwd/n64/f32/vec4";

    /// Returns the rows of a file as JSON objects without the absent fields, and the columns with their kinds.
    fn read(bytes: Vec<u8>) -> (Vec<Value>, Vec<(String, Physical)>) {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        let columns = reader.metadata().file_metadata().schema_descr().columns().iter();
        let columns = columns.map(|column| (column.name().to_owned(), column.physical_type())).collect();
        let value = |field: &Field| match field {
            Field::Null => None,
            Field::Bool(flag) => Some(Value::from(*flag)),
            Field::Long(whole) => Some(Value::from(*whole)),
            Field::Double(real) => Some(Value::from(*real)),
            Field::Str(text) => Some(Value::from(text.as_str())),
            other => panic!("{other:?}"),
        };
        let rows = reader.get_row_iter(None).expect("rows").map(|row| {
            let row = row.expect("a row");
            row.get_column_iter().filter_map(|(name, field)| Some((name.clone(), value(field)?))).collect()
        });
        (rows.collect(), columns)
    }

    fn written(row: &impl Serialize) -> Value {
        let mut row = serde_json::to_value(row).expect("JSON");
        row.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        row
    }

    #[test]
    fn rows_and_samples_survive_their_file() {
        let runs = [NamedRun::new("a", run("cuda", "X ö", &[(COPY, spread(100.0 / 3.0, 0.01, 30))]))];
        let (of_cases, of_samples) = (rows(&runs, None), samples(&runs));
        let (read_cases, _) = read(file::<SheetRow>(&of_cases).expect("a file"));
        assert_eq!(read_cases, of_cases.iter().map(written).collect::<Vec<_>>());
        let (read_samples, _) = read(file::<SampleRow>(&of_samples).expect("a file"));
        assert_eq!(read_samples, of_samples.iter().map(written).collect::<Vec<_>>());
        assert_eq!(of_samples.len(), 30);
    }

    #[test]
    fn columns_keep_their_kinds_where_no_row_has_a_value() {
        let (none, columns) = read(file::<SheetRow>(&[]).expect("a file"));
        assert!(none.is_empty());
        let kind = |name: &str| columns.iter().find(|(column, _)| column == name).map(|(_, kind)| *kind);
        for (name, want) in [
            ("case", Physical::BYTE_ARRAY),
            ("verdict", Physical::BYTE_ARRAY),
            ("clock", Physical::BYTE_ARRAY),
            ("median_ns", Physical::DOUBLE),
            ("n", Physical::INT64),
            ("repeatable", Physical::BOOLEAN),
            ("minimum_detectable_effect", Physical::DOUBLE),
        ] {
            assert_eq!(kind(name), Some(want), "{name}");
        }
    }
}

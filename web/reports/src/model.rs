//! Model of the user: from the bytes of a file to its operations, with the choices that the file leaves open.

use std::collections::BTreeMap;

use bytes::Bytes;
use maud::{Markup, html};
use parallax_model::{ModelError, Options, Phase, stem};
use parallax_report::{escape, html as report};
use parallax_schema::case::DType;
use parallax_schema::record::{Model, ModelFormat};
use parallax_schema::units::counted;
use serde::{Deserialize, Serialize};

/// Largest number of operations that the page shows.
const MOST_OPERATIONS: usize = 4000;
/// Largest number of problems that the page plans.
const MOST_PROBLEMS: usize = 1000;
/// Largest number of fields for dimensions.
const MOST_FIELDS: usize = 40;
/// Prefix of a field's name for the extent of a dimension.
const DIMENSION: &str = "dim.";
/// Sizes of dimensions that a file leaves open, by a part of their names. Others have one element.
const DEFAULTS: [(&str, u64); 6] =
    [("batch", 1), ("seq", 128), ("len", 128), ("token", 128), ("height", 224), ("width", 224)];

/// Request to read a model's file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Request {
    /// Name of the file.
    pub file: String,
    /// Element types of the device.
    pub dtypes: Vec<DType>,
    /// Names and values of the form's fields; none for a new file.
    pub chosen: Option<Vec<(String, String)>>,
}

/// Model of a file, with its markup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// The model.
    pub model: Model,
    /// Fields for the choices that the file leaves open; none for a file with choices.
    pub form: Option<String>,
    /// Its operations.
    pub about: String,
}

/// Reads a model.
///
/// # Errors
/// No model, an impossible choice, or a model too large for the page.
pub fn read(contents: Vec<u8>, asked: &Request) -> Result<Answer, String> {
    let source = Source { contents: contents.into(), name: stem(&asked.file) };
    let is_new = asked.chosen.is_none();
    let mut options = asked.chosen.as_deref().map_or_else(|| Ok(Options::default()), chosen)?;
    let mut model = if is_new { source.with_defaults(&mut options) } else { source.read(&options) }?;
    let own = own_type(&model);
    let mut remark = None;
    if let Some(own) = own.filter(|own| is_new && !asked.dtypes.contains(own)) {
        options.dtype = Some(DType::F32);
        model = source.read(&options)?;
        remark = Some(format!(
            "This device does not compute in {}, the element type of the file. f32 stands for it.",
            own.name()
        ));
    }
    let problems = model.problems().len();
    for (count, most, object) in
        [(model.operations.len(), MOST_OPERATIONS, "operation"), (problems, MOST_PROBLEMS, "problem")]
    {
        if count > most {
            let count = counted(count, object);
            return Err(format!("it has {count}, and this page takes {most}; `parallax run --from` takes more"));
        }
    }
    if problems == 0 {
        return Err(format!("none of its {} has a problem in the suite", counted(model.operations.len(), "operation")));
    }
    let about = html! {
        (maud::PreEscaped(report::operations(&model)))
        @if let Some(remark) = remark { p { (remark) } }
    };
    let form = if is_new { Some(form(&source, &model, &options, &asked.dtypes)?.into_string()) } else { None };
    Ok(Answer { form, about: about.into_string(), model })
}

/// File of a model.
struct Source<'a> {
    contents: Bytes,
    name: &'a str,
}

impl Source<'_> {
    fn read(&self, options: &Options) -> Result<Model, String> {
        parallax_model::read(self.contents.clone(), self.name, options).map_err(|why| why.to_string())
    }

    /// Reads the file with default sizes for the dimensions that need one.
    fn with_defaults(&self, options: &mut Options) -> Result<Model, String> {
        loop {
            match parallax_model::read(self.contents.clone(), self.name, options) {
                Err(ModelError::Dimensions { names }) if options.extents.len() + names.len() <= MOST_FIELDS => {
                    options.extents.extend(names.into_iter().map(|name| {
                        let size = default_size(&name);
                        (name, size)
                    }));
                }
                Err(ModelError::Dimensions { names }) => {
                    let count = counted(options.extents.len() + names.len(), "dimension");
                    return Err(format!(
                        "it has {count} without a size, and this page takes {MOST_FIELDS}; `parallax run --from` takes more"
                    ));
                }
                read => return read.map_err(|why| why.to_string()),
            }
        }
    }
}

/// Returns the default size of a dimension.
fn default_size(name: &str) -> u64 {
    let name = name.to_lowercase();
    DEFAULTS.iter().find(|(part, _)| name.contains(part)).map_or(1, |(_, size)| *size)
}

/// Returns the element type of the first problem.
fn own_type(model: &Model) -> Option<DType> {
    let name = model.problems().first()?.rsplit('/').next()?;
    named(&DType::ALL, name)
}

/// Returns the choices of the form.
fn chosen(pairs: &[(String, String)]) -> Result<Options, String> {
    let mut options = Options::default();
    for (field, value) in pairs {
        match (field.strip_prefix(DIMENSION), field.as_str()) {
            (Some(name), _) => {
                let size = value.parse().ok().filter(|size| *size > 0);
                let size = size.ok_or_else(|| format!("{name}: `{value}` is no whole number from 1"))?;
                options.extents.insert(name.to_owned(), size);
            }
            (None, "phase") => options.phase = named(&Phase::ALL, value).unwrap_or_default(),
            (None, _) => options.dtype = named(&DType::ALL, value),
        }
    }
    Ok(options)
}

/// Returns the value of a name.
pub fn named<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Returns fields for the dimensions, the phase of a decoder and the element type.
fn form(source: &Source, model: &Model, options: &Options, dtypes: &[DType]) -> Result<Markup, String> {
    let extents: BTreeMap<&String, &u64> = options.extents.iter().chain(&model.extents).collect();
    // Only a decoder has other operations in the other phase.
    let decode = Options { phase: Phase::Decode, ..options.clone() };
    let is_decoder = model.format == ModelFormat::Config && source.read(&decode)?.operations != model.operations;
    let types = DType::ALL.into_iter().filter(|(_, dtype)| dtypes.contains(dtype));
    Ok(html! {
        @for (name, extent) in extents {
            label.field.short { (escape(name)) input type="number" name=(format!("{DIMENSION}{name}")) min="1" step="1" inputmode="numeric" value=(extent); }
        }
        @if is_decoder {
            label.field.short { "Phase" select name="phase" { @for (name, _) in Phase::ALL { option { (name) } } } }
        }
        label.field.short {
            "Element type"
            select name="dtype" {
                option value="" { "of the file" }
                @for (name, dtype) in types { option selected[options.dtype == Some(dtype)] { (name) } }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BERT: &str = r#"{"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "vocab_size": 50, "torch_dtype": "bfloat16"}"#;

    fn read(contents: &str, chosen: Option<&[(&str, &str)]>) -> Result<Answer, String> {
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let asked = Request { file: "a.json".to_owned(), dtypes: vec![DType::F32], chosen: chosen.map(owned) };
        super::read(contents.as_bytes().to_vec(), &asked)
    }

    #[test]
    fn a_new_file_has_fields_and_a_type_of_the_device() {
        let Answer { model, form, about } = read(BERT, None).expect("a model");
        let form = form.expect("fields of a new file");
        assert!(form.contains("name=\"dim.seq\"") && form.contains("<option selected>f32"), "{form}");
        assert!(!form.contains("phase"), "an encoder has one phase: {form}");
        assert!(about.contains("does not compute in bf16"), "{about}");
        assert!(model.problems().iter().all(|problem| problem.ends_with("/f32")), "{:?}", model.problems());
        let llama = BERT.replace("bert", "llama");
        assert!(read(&llama, None).expect("a model").form.is_some_and(|form| form.contains("decode")));
    }

    #[test]
    fn choices_replace_the_defaults() {
        let chosen = [("dim.batch", "2"), ("dim.seq", "8"), ("dtype", "f16")];
        let Answer { model, form, .. } = read(BERT, Some(&chosen)).expect("a model");
        assert_eq!((model.extents["batch"], model.extents["seq"], form), (2, 8, None));
        assert!(model.problems().iter().all(|problem| problem.ends_with("/f16")), "{:?}", model.problems());
        for (chosen, part) in [
            (("dim.seq", "0"), "seq: `0` is no whole number"),
            (("dim.seq", ""), "seq: `` is no whole number"),
            (("dim.frames", "1"), "no dimension is called `frames`"),
        ] {
            let said = read(BERT, Some(&[chosen])).expect_err(part);
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn dimensions_have_a_default_by_their_name() {
        for (name, want) in [("batch_size", 1), ("past_sequence_length", 128), ("Height", 224), ("x.2", 1)] {
            assert_eq!(default_size(name), want, "{name}");
        }
    }
}

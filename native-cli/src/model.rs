//! Model of the user: options, and the problems of its operations in place of a preset.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use parallax_model::{MOST_BYTES, Options, Phase, stem};
use parallax_schema::record::Model;
use parallax_schema::spec::Spec;

use crate::reading::unpacked;

/// Help heading of options for models.
const MODEL: &str = "Your model";

/// Options of a model.
#[derive(Debug, Clone, Default, Args)]
pub struct FromModel {
    /// Take the operations of a model: ONNX, config.json, trace, workloads
    ///
    /// An ONNX graph, `config.json` of Hugging Face, a trace of torch.profiler with record_shapes, or workloads of FlashInfer-Bench.
    /// Every operation is measured in the variants of its problem; operations without a problem are listed with their share.
    #[arg(long, value_name = "FILE", help_heading = MODEL)]
    pub from: Option<PathBuf>,
    /// With --from: size of a dimension, as in batch=8; may be repeated
    #[arg(long, value_name = "NAME=N", value_parser = dimension, help_heading = MODEL, requires = "from", hide_short_help = true)]
    pub dim: Vec<(String, u64)>,
    /// With --from: short for --dim batch=N
    #[arg(long, value_name = "N", help_heading = MODEL, requires = "from", hide_short_help = true)]
    pub batch: Option<u64>,
    /// With --from: short for --dim seq=N, the tokens of a sequence
    #[arg(long, value_name = "N", help_heading = MODEL, requires = "from", hide_short_help = true)]
    pub seq: Option<u64>,
    /// With --from and the configuration of a decoder: prefill or decode [default: prefill]
    ///
    /// prefill: all tokens of a prompt. decode: one token after the others.
    #[arg(long, value_parser = phases(), help_heading = MODEL, requires = "from", hide_short_help = true)]
    pub phase: Option<Phase>,
}

fn phases() -> impl TypedValueParser<Value = Phase> {
    let named = |name: String| Phase::ALL.iter().find(|(known, _)| *known == name).map(|(_, phase)| *phase);
    PossibleValuesParser::new(Phase::ALL.map(|(name, _)| name)).map(move |name| named(name).expect("a possible value"))
}

fn dimension(text: &str) -> Result<(String, u64), String> {
    let parsed = text.rsplit_once('=').and_then(|(name, size)| Some((name.trim(), size.trim().parse().ok()?)));
    match parsed {
        Some((name, size)) if !name.is_empty() => Ok((name.to_owned(), size)),
        _ => Err("write a name and a size, as in batch=8".to_owned()),
    }
}

impl FromModel {
    /// Reads the model and puts its problems into the spec. Returns none without --from.
    ///
    /// # Errors
    /// Unreadable or unknown file, a dimension without a size, or no operation that has a problem.
    pub fn apply(&self, spec: &mut Spec) -> anyhow::Result<Option<Model>> {
        let Some(path) = &self.from else { return Ok(None) };
        if spec.names_cases() {
            bail!("--from selects the cases itself: leave --case and --problem out");
        }
        let mut options = Options { phase: self.phase.unwrap_or_default(), ..Options::default() };
        let short = [("batch", self.batch), ("seq", self.seq)];
        let short = short.into_iter().filter_map(|(name, size)| Some((name.to_owned(), size?)));
        for (name, size) in self.dim.iter().cloned().chain(short) {
            if options.extents.insert(name.clone(), size).is_some_and(|other| other != size) {
                bail!("the dimension {name} has two sizes");
            }
        }
        options.dtype = match spec.dtype[..] {
            [] => None,
            [one] => Some(one),
            _ => bail!("a model has one element type: name one --dtype, or none for that of the file"),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let model = parallax_model::read(contents(path)?.into(), stem(&name), &options)
            .with_context(|| path.display().to_string())?;
        spec.problem = model.problems().into_iter().map(str::to_owned).collect();
        if spec.problem.is_empty() {
            bail!("{}: none of its {} operations has a problem in the suite", path.display(), model.operations.len());
        }
        Ok(Some(model))
    }
}

/// Returns the contents of a file, unpacked. More than the reader takes is cut one byte later, for its error.
fn contents(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        unpacked(File::open(path)?)?.take(MOST_BYTES + 1).read_to_end(&mut contents)?;
        Ok(contents)
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::case::DType;

    fn example(file: &str) -> Option<PathBuf> {
        Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/model/examples").join(file))
    }

    #[test]
    fn a_model_replaces_the_preset() {
        let from = FromModel { from: example("encoder.onnx"), batch: Some(2), seq: Some(64), ..FromModel::default() };
        let mut spec = Spec { dtype: vec![DType::F16], ..Spec::default() };
        let model = from.apply(&mut spec).expect("a model").expect("asked for");
        assert_eq!(model.extents, [("batch".to_owned(), 2), ("seq".to_owned(), 64)].into());
        assert!(spec.problem.contains(&"attention/fwd/b2,h4,s64,d32/f16".to_owned()), "{:?}", spec.problem);
        assert_eq!(FromModel::default().apply(&mut Spec::default()).expect("nothing asked"), None);
    }

    #[test]
    fn mistakes_name_the_file_or_the_option() {
        let onnx = || FromModel { from: example("encoder.onnx"), batch: Some(2), ..FromModel::default() };
        let dim = |name: &str, size| vec![(name.to_owned(), size)];
        for (from, part) in [
            (onnx(), "encoder.onnx: no size is known for seq"),
            (FromModel { dim: dim("batch", 3), ..onnx() }, "two sizes"),
            (FromModel { from: example("make.py"), ..FromModel::default() }, "make.py: this is no ONNX graph"),
            (FromModel { from: example("nothing"), ..FromModel::default() }, "cannot read"),
        ] {
            let said = format!("{:#}", from.apply(&mut Spec::default()).expect_err(part));
            assert!(said.contains(part), "{said}");
        }
        assert!(dimension("batch").is_err() && dimension("=3").is_err() && dimension("a=-1").is_err());
        assert_eq!(dimension("x.0=3"), Ok(("x.0".to_owned(), 3)));
    }
}

//! Tasks: models of one kind with their data, for training and evaluation.

use std::collections::BTreeMap;

use anyhow::bail;
use clap::ValueEnum;
use parallax_model::data::Weights;
use parallax_model::examples::Examples;
use parallax_model::network::Network;
use parallax_schema::record::Run;

use super::classify::Classify;
use super::evaluation::EvaluationOptions;
use super::executor::Executor;
use super::image::Image;
use super::ner::Ner;

/// Kind of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Classes of table rows or texts
    Classify,
    /// Entities of texts
    Ner,
    /// Classes of images and volumes
    Image,
}

impl Kind {
    /// Name, as in weights and cases.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Classify => "classify",
            Kind::Ner => "ner",
            Kind::Image => "image",
        }
    }
}

/// Data of a task.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// File or name of shipped data; none for the default of the kind.
    pub data: Option<&'a str>,
    /// Column of labels in a CSV file.
    pub label: &'a str,
    /// Whether offsets of entities are bytes.
    pub bytes: bool,
    /// Whether lines with errors are skipped.
    pub lenient: bool,
}

/// Extents that the user may choose; none for the default of the kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extents {
    /// Hidden width, or channels of the first convolution.
    pub hidden: Option<usize>,
    /// Columns that texts are hashed into, or the width of a token.
    pub width: Option<usize>,
}

/// Network with its training part.
pub struct Prepared {
    /// The network.
    pub network: Box<dyn Network>,
    /// Items of the training part.
    pub items: Box<dyn Examples>,
    /// Metadata of the weights.
    pub about: BTreeMap<String, String>,
    /// Change of the weights after the training.
    pub finish: Box<dyn Fn(&mut Weights)>,
}

/// Model of one kind with its data.
pub trait Task {
    /// Returns the default numbers of steps and of items of a batch.
    fn defaults(&self) -> (u32, u32);

    /// Returns the shipped weights of shipped data.
    fn shipped_weights(&self) -> Option<&'static [u8]>;

    /// Returns the network and its training part. `seed` chooses the held-out part.
    ///
    /// # Errors
    /// Data without a held-out part or with too few classes, or an error of the device.
    fn prepare(&self, extents: Extents, seed: u64, executor: &mut Executor) -> anyhow::Result<Prepared>;

    /// Returns the run of weights with its scores, and lines for the terminal. Items are the held-out part of the data that the
    /// weights were trained on, and all items of other data.
    ///
    /// # Errors
    /// Weights without their metadata, unknown labels, or an error of the device.
    fn evaluate(
        &self,
        weights: &Weights,
        options: &EvaluationOptions<'_>,
        executor: &mut Executor,
    ) -> anyhow::Result<(Run, Vec<String>)>;
}

/// Returns the metadata of weights: the kind of the model, the hash of its data, and these extents and names.
pub fn about<const N: usize>(kind: Kind, data: &str, more: [(&str, String); N]) -> BTreeMap<String, String> {
    let all = [("model", kind.name().to_owned()), ("data", data.to_owned())].into_iter().chain(more);
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Reads the data of a task.
///
/// # Errors
/// File that cannot be read, or a line with an error, unless lenient.
pub fn open(kind: Kind, given: Given<'_>) -> anyhow::Result<Box<dyn Task>> {
    Ok(match kind {
        Kind::Classify => Box::new(Classify::read(given)?),
        Kind::Ner => Box::new(Ner::read(given)?),
        Kind::Image => Box::new(Image::read(given)?),
    })
}

/// Checks that weights are of a kind. Those of a classifier may have no kind.
///
/// # Errors
/// Weights of another kind.
pub fn check_kind(weights: &Weights, kind: Kind) -> anyhow::Result<()> {
    let of = weights.about.get("model").map_or(Kind::Classify.name(), String::as_str);
    if of != kind.name() {
        bail!("the weights are of a model `{}`, not `{}`", of.escape_debug(), kind.name());
    }
    Ok(())
}

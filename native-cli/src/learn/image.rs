//! Classifiers of images and volumes: digits, square images of a table, and made volumes.

use anyhow::bail;
use parallax_model::data::{Lines, Weights, table};
use parallax_model::examples::Rows;
use parallax_model::image::{Convolutions, Dimensions, SHAPES, SIDE, fold, volumes};
use parallax_schema::record::Run;
use sha2::{Digest, Sha256};

use super::classes::{classes, quality, targets};
use super::classify::DIGITS;
use super::evaluation::{Evaluation, EvaluationOptions, names, parts, rows_of};
use super::executor::Executor;
use super::files::{digits, kept, read};
use super::scoring::Asked;
use super::task::{Extents, Given, Kind, Prepared, Task, about};

/// Name of the made volumes, their number, and their seed.
const VOLUMES: &str = "volumes";
const COUNT: usize = 1600;
const SEED: u64 = 20_261_129;
/// Shipped weights.
const WEIGHTS: [(&str, &[u8]); 2] = [
    ("digits", include_bytes!("../../data/digits-image.safetensors")),
    (VOLUMES, include_bytes!("../../data/volumes.safetensors")),
];

/// Default channels of the first convolution, of images and of volumes, and largest number.
const CHANNELS: [usize; 2] = [16, 8];
const MOST_CHANNELS: usize = 4096;

/// Images with their classes' names.
pub struct Image {
    name: String,
    hash: String,
    shipped: bool,
    dimensions: Dimensions,
    side: usize,
    values: Vec<f32>,
    labels: Vec<String>,
}

impl Image {
    /// Reads the digits or a CSV file of square images, or makes the volumes.
    ///
    /// # Errors
    /// File that cannot be read, rows of no square image, or a line with an error, unless lenient.
    pub fn read(given: Given<'_>) -> anyhow::Result<Image> {
        let name = given.data.unwrap_or("digits");
        if name == VOLUMES {
            return Ok(made());
        }
        let file = read(name, &[("digits", DIGITS)], "images are digits, volumes")?;
        if file.format != "csv" {
            bail!("{}: write images as .csv, a row of pixels each", file.name);
        }
        let lines = if given.lenient { Lines::Lenient } else { Lines::Strict };
        let table = kept(&file.name, table(&file.bytes, given.label, lines))?;
        let side = table.columns.len().isqrt();
        if side * side != table.columns.len() || side == 0 || !side.is_multiple_of(2) {
            bail!("{}: {} columns are no square image with an even side", file.name, table.columns.len());
        }
        Ok(Image {
            name: file.name,
            hash: file.hash,
            shipped: file.shipped,
            dimensions: Dimensions::Two,
            side,
            values: table.values,
            labels: table.labels,
        })
    }

    fn model(&self, channels: usize, classes: usize) -> Convolutions {
        Convolutions { dimensions: self.dimensions, side: self.side, channels, classes }
    }

    fn rows(&self, classes: &[String]) -> anyhow::Result<Rows> {
        let width = self.values.len() / self.labels.len();
        Ok(Rows { values: self.values.clone(), width, targets: targets(&self.name, &self.labels, classes)? })
    }
}

/// Returns the made volumes.
fn made() -> Image {
    let Rows { values, targets, .. } = volumes(COUNT, SEED);
    let mut hash = Sha256::new();
    values.iter().for_each(|value| hash.update(value.to_le_bytes()));
    Image {
        name: VOLUMES.to_owned(),
        hash: digits(&hash.finalize()),
        shipped: true,
        dimensions: Dimensions::Three,
        side: SIDE,
        values,
        labels: targets.into_iter().map(|target| SHAPES[target].to_owned()).collect(),
    }
}

impl Task for Image {
    fn defaults(&self) -> (u32, u32) {
        match self.dimensions {
            Dimensions::Two => (1000, 32),
            Dimensions::Three => (600, 32),
        }
    }

    fn shipped_weights(&self) -> Option<&'static [u8]> {
        WEIGHTS.iter().find(|(name, _)| self.shipped && *name == self.name).map(|(_, weights)| *weights)
    }

    fn prepare(&self, extents: Extents, seed: u64, _executor: &mut Executor) -> anyhow::Result<Prepared> {
        let classes = classes(&self.name, &self.labels)?;
        let training = parts(&self.name, self.labels.len(), seed)?;
        let mut items = self.rows(&classes)?.some(&training);
        let largest = items.values.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        let scale = if largest > 0.0 { largest.recip() } else { 1.0 };
        items.values.iter_mut().for_each(|value| *value *= scale);
        let channels = CHANNELS[self.dimensions.rank() - 2];
        let model = self.model(extents.hidden.unwrap_or(channels), classes.len());
        let more = [
            ("classes", serde_json::to_string(&classes)?),
            ("dimensions", self.dimensions.rank().to_string()),
            ("side", self.side.to_string()),
            ("channels", model.channels.to_string()),
        ];
        let about = about(Kind::Image, &self.hash, more);
        let finish = Box::new(move |weights: &mut Weights| fold(weights, scale));
        Ok(Prepared { network: Box::new(model), items: Box::new(items), about, finish })
    }

    fn evaluate(
        &self,
        weights: &Weights,
        options: &EvaluationOptions<'_>,
        executor: &mut Executor,
    ) -> anyhow::Result<(Run, Vec<String>)> {
        let classes = names(weights, "classes", 2)?;
        let (rank, side): (usize, usize) = (weights.about("dimensions")?, weights.about("side")?);
        if (rank, side) != (self.dimensions.rank(), self.side) {
            let axes = |rank: usize, side: usize| vec![side.to_string(); rank.min(3)].join(" × ");
            bail!(
                "{}: images are {}, and those of the weights {}",
                self.name,
                axes(self.dimensions.rank(), self.side),
                axes(rank, side)
            );
        }
        let channels: usize = weights.about("channels")?;
        if !(1..=MOST_CHANNELS).contains(&channels) {
            bail!("metadata `channels` is damaged");
        }
        let model = self.model(channels, classes.len());
        let (rows, which) = rows_of(weights, &self.name, &self.hash, self.labels.len())?;
        let part = self.rows(&classes)?.some(&rows);
        let evaluation = Evaluation {
            kind: Kind::Image,
            asked: Asked { network: &model, items: &part },
            weights,
            data: &self.name,
            items: which,
            variant: "convolutions",
            extents: vec![("r", rank), ("h", side), ("m", model.channels), ("c", model.classes)],
            options,
            rows: None,
        };
        evaluation.run(executor, |answers| quality(&classes, &part.targets, answers, options.seed))
    }
}

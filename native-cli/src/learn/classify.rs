//! Classifiers: labelled tables and texts, their training, and their evaluation.

use anyhow::bail;
use parallax_model::classifier::{Classifier, SCALED, embedding, fold, scaler};
use parallax_model::data::{Lines, Weights, labelled, table};
use parallax_model::examples::{INPUT, Rows};
use parallax_model::layers::Arrays;
use parallax_model::network::Network;
use parallax_schema::record::Run;

use super::classes::{classes, quality, targets};
use super::evaluation::{Evaluation, EvaluationOptions, names, parts, rows_of};
use super::executor::Executor;
use super::files::{File, kept, read};
use super::scoring::Asked;
use super::task::{Extents, Given, Kind, Prepared, Task, about};

/// Shipped tables, with their shipped weights.
const SHIPPED: [(&str, &[u8], &[u8]); 2] = [
    (
        "breast-cancer",
        include_bytes!("../../data/breast-cancer.csv"),
        include_bytes!("../../data/breast-cancer.safetensors"),
    ),
    ("digits", include_bytes!("../../data/digits.csv"), include_bytes!("../../data/digits.safetensors")),
];

/// Table of the digits.
pub const DIGITS: &[u8] = SHIPPED[1].1;

/// Default hidden width, and default columns of embedded texts.
const HIDDEN: usize = 64;
const COLUMNS: usize = 512;

/// Rows of a file with their labels.
pub struct Classify {
    file: File,
    /// Columns of a table; none for texts.
    columns: Option<usize>,
    contents: Contents,
    /// Label of each row.
    labels: Vec<String>,
}

enum Contents {
    Table(Vec<f32>),
    Texts(Vec<String>),
}

impl Classify {
    /// Reads a shipped table, a CSV file, or lines of JSON with `text` and `label`.
    ///
    /// # Errors
    /// File that cannot be read, or a line with an error, unless lenient.
    pub fn read(given: Given<'_>) -> anyhow::Result<Classify> {
        let shipped = SHIPPED.map(|(name, data, _)| (name, data));
        let file = read(given.data.unwrap_or("breast-cancer"), &shipped, "tables are breast-cancer, digits")?;
        let lines = if given.lenient { Lines::Lenient } else { Lines::Strict };
        match &*file.format {
            "csv" => of_table(file, given.label, lines),
            "jsonl" | "ndjson" => of_texts(file, lines),
            _ => bail!("{}: write a table as .csv, or texts as .jsonl", file.name),
        }
    }

    /// Returns all rows with `width` features each. Texts are embedded on the device.
    fn rows(&self, width: usize, classes: &[String], executor: &mut Executor) -> anyhow::Result<Rows> {
        let values = match &self.contents {
            Contents::Table(values) => match self.columns.unwrap_or(0) {
                columns if columns == width => values.clone(),
                columns => {
                    bail!("{}: there are {columns} columns of numbers, and the model has {width}", self.file.name)
                }
            },
            Contents::Texts(texts) => {
                let mut arrays = Arrays::default();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let layer = embedding(&texts, width, &mut arrays);
                executor.run(&[layer], &mut arrays)?;
                arrays.f32(INPUT)
            }
        };
        Ok(Rows { values, width, targets: targets(&self.file.name, &self.labels, classes)? })
    }
}

fn of_table(file: File, label: &str, lines: Lines) -> anyhow::Result<Classify> {
    let table = kept(&file.name, table(&file.bytes, label, lines))?;
    if table.columns.is_empty() {
        bail!("{}: there is no column besides `{label}`", file.name);
    }
    let contents = Contents::Table(table.values);
    Ok(Classify { file, columns: Some(table.columns.len()), contents, labels: table.labels })
}

fn of_texts(file: File, lines: Lines) -> anyhow::Result<Classify> {
    let items = kept(&file.name, labelled(&file.bytes, lines))?;
    let (texts, labels) = items.into_iter().map(|item| (item.text, item.label)).unzip();
    Ok(Classify { file, columns: None, contents: Contents::Texts(texts), labels })
}

impl Task for Classify {
    fn defaults(&self) -> (u32, u32) {
        (1000, 64)
    }

    fn shipped_weights(&self) -> Option<&'static [u8]> {
        SHIPPED.iter().find(|(name, ..)| self.file.shipped && *name == self.file.name).map(|(.., weights)| *weights)
    }

    fn prepare(&self, extents: Extents, seed: u64, executor: &mut Executor) -> anyhow::Result<Prepared> {
        let classes = classes(&self.file.name, &self.labels)?;
        let training = parts(&self.file.name, self.labels.len(), seed)?;
        let features = self.columns.unwrap_or(extents.width.unwrap_or(COLUMNS));
        let hidden = extents.hidden.unwrap_or(HIDDEN);
        let mut items = self.rows(features, &classes, executor)?.some(&training);
        let model = Classifier { features, hidden, classes: classes.len() };
        let mut finish: Box<dyn Fn(&mut Weights)> = Box::new(|_| {});
        // Embedded texts have columns of one scale.
        if self.columns.is_some() {
            let mut scaling = Arrays::default();
            scaling.set_f32(INPUT, &items.values);
            executor.run(&[scaler(training.len(), features)], &mut scaling)?;
            items.values = scaling.f32(SCALED);
            finish = Box::new(move |weights| fold(weights, &scaling.f32("mean"), &scaling.f32("variance")));
        }
        let input = if self.columns.is_some() { "table" } else { "text" };
        let more = [
            ("classes", serde_json::to_string(&classes)?),
            ("features", features.to_string()),
            ("hidden", hidden.to_string()),
            ("input", input.to_owned()),
        ];
        let about = about(Kind::Classify, &self.file.hash, more);
        Ok(Prepared { network: Box::new(model), items: Box::new(items), about, finish })
    }

    fn evaluate(
        &self,
        weights: &Weights,
        options: &EvaluationOptions<'_>,
        executor: &mut Executor,
    ) -> anyhow::Result<(Run, Vec<String>)> {
        let classes = names(weights, "classes", 2)?;
        let model = Classifier {
            features: weights.about("features")?,
            hidden: weights.about("hidden")?,
            classes: classes.len(),
        };
        // Before any product of extents: a damaged number has no tensor of its size.
        (&model as &dyn Network).load(weights, &mut Arrays::default())?;
        if self.columns.is_some() != (weights.about::<String>("input")? == "table") {
            bail!("{}: the weights are of the other kind of data, tables or texts", self.file.name);
        }
        let all = self.rows(model.features, &classes, executor)?;
        let (rows, which) = rows_of(weights, &self.file.name, &self.file.hash, self.labels.len())?;
        let part = all.some(&rows);
        let evaluation = Evaluation {
            kind: Kind::Classify,
            asked: Asked { network: &model, items: &part },
            weights,
            data: &self.file.name,
            items: which,
            variant: "mlp",
            extents: vec![("f", model.features), ("h", model.hidden), ("c", model.classes)],
            options,
            rows: None,
        };
        evaluation.run(executor, |answers| quality(&classes, &part.targets, answers, options.seed))
    }
}

//! Evaluation of weights: answers, scores, agreement with the processor, and the run file of them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use parallax_learn::Job;
use parallax_model::data::Weights;
use parallax_model::examples::split;
use parallax_schema::case::{DType, Storage};
use parallax_schema::device::Compiled;
use parallax_schema::record::{Difference, Measured, Outcome, Parts, Record, Repeatable, Run, Score};
use parallax_schema::units::four_digits;

use super::executor::Executor;
use super::scoring::{Answers, Asked, agreement, speed};
use super::task::Kind;
use crate::args::Device;
use crate::{files, npy, targets};

/// Options of an evaluation.
pub struct EvaluationOptions<'a> {
    /// Seed of the intervals.
    pub seed: u64,
    /// Element type of the layers.
    pub dtype: DType,
    /// Devices, for the processor beside another target.
    pub device: &'a Device,
    /// Folder for the inputs and the logits as NumPy arrays.
    pub arrays: Option<&'a Path>,
}

/// Weights of a network with items to answer.
pub struct Evaluation<'a> {
    /// Kind of the model.
    pub kind: Kind,
    /// The network and the items.
    pub asked: Asked<'a>,
    /// The weights.
    pub weights: &'a Weights,
    /// Name of the data.
    pub data: &'a str,
    /// Number and kind of the items, for the terminal.
    pub items: String,
    /// Name of the network.
    pub variant: &'static str,
    /// Extents of the network, by the axes of its case.
    pub extents: Vec<(&'static str, usize)>,
    /// The options.
    pub options: &'a EvaluationOptions<'a>,
    /// Rows of logits that are compared; none for all.
    pub rows: Option<Vec<usize>>,
}

/// Scores of quality, and lines about them for the terminal.
pub struct Quality {
    /// The scores.
    pub scores: Vec<Score>,
    /// Lines about classes or types.
    pub lines: Vec<String>,
}

impl Evaluation<'_> {
    /// Returns the run with its scores, and lines for the terminal.
    ///
    /// # Errors
    /// Weights of other extents, or an error of the device.
    pub fn run(
        &self,
        executor: &mut Executor,
        quality: impl FnOnce(&Answers) -> anyhow::Result<Quality>,
    ) -> anyhow::Result<(Run, Vec<String>)> {
        let dtype = self.options.dtype;
        let job_in = |dtype| Job::new(self.asked.network, self.weights, self.asked.items, dtype);
        let job = job_in(dtype)?;
        let (run, passes) = executor.passes(&job)?;
        let classes = self.asked.network.classes();
        let all = Answers::new(&passes.answers, classes);
        if let Some(folder) = self.options.arrays {
            self.write_arrays(folder, &job, &all)?;
        }
        let ours = self.judged(all);
        let Quality { mut scores, lines: about } = quality(&ours)?;
        scores.extend(speed(self.asked.items.rate(), &passes, self.options.seed));
        let processor = match (executor.target, dtype) {
            (targets::CPU, DType::F32) => None,
            _ => {
                let answers = Executor::processor(self.options.device)?.answers(&job_in(DType::F32)?)?;
                Some(self.judged(Answers::new(&answers, classes)))
            }
        };
        let mut agreement = agreement(&ours, processor.as_ref().unwrap_or(&ours), dtype);
        let bound = agreement.check.bound;
        agreement.check.repeatable = Some(match passes.apart {
            0.0 => Repeatable::Bitwise,
            by => Repeatable::Differs(Difference { by: by.min(f64::MAX), of_bound: (by / bound).min(f64::MAX) }),
        });
        let (name, target) = (&run.device().name, &run.target);
        let mut lines = vec![format!("{} on {name} ({target}, {}): {}", self.data, dtype.name(), self.items)];
        lines.extend(about);
        if processor.is_some() {
            scores.extend(agreement.scores);
        }
        lines.extend(scores.iter().map(shown));
        if !agreement.parted.is_empty() {
            let some: Vec<String> = agreement.parted.iter().take(10).map(usize::to_string).collect();
            lines.push(format!("predictions differ from those of the processor in rows {}", some.join(", ")));
        }
        if !agreement.check.passed {
            lines.push(format!("logits differ from those of the processor: {}", agreement.check.sentence()));
        }
        let peaks = [("device", Some(passes.memory.peak)), ("host", passes.memory.host_peak)];
        let peaks = peaks.iter().filter_map(|(place, peak)| Some(format!("{} of the {place}", peak.as_ref()?)));
        lines.push(format!("memory: {} at most", peaks.collect::<Vec<_>>().join(", ")));
        lines.push(match passes.apart {
            0.0 => "logits of all passes have the same bits".to_owned(),
            by => format!("logits of two passes are up to {} apart", four_digits(by)),
        });
        let outcome = match agreement.check.passed {
            false => Outcome::Fail { check: agreement.check },
            true => Outcome::Pass(Box::new(Measured {
                compiled: Compiled::default(),
                check: agreement.check,
                timing: None,
                call: None,
                energy: None,
                counters: None,
                scores,
                memory: passes.memory,
                launches: Vec::new(),
                analysis: None,
                trace: None,
                phases: Vec::new(),
            })),
        };
        Ok((self.with_record(run, outcome), lines))
    }

    /// Returns the answers that count.
    fn judged(&self, all: Answers) -> Answers {
        match &self.rows {
            Some(rows) => all.some(rows),
            None => all,
        }
    }

    /// Writes the inputs of all items, and their logits, as `inputs.npy` and `logits.npy`.
    ///
    /// # Errors
    /// Folder that cannot be made or written.
    fn write_arrays(&self, folder: &Path, job: &Job, all: &Answers) -> anyhow::Result<()> {
        let (items, inputs) = (job.items(), &job.input);
        let logits: Vec<u8> = all.logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        for (file, rows, storage, bytes) in [
            ("inputs.npy", items, inputs.storage, &inputs.bytes[..]),
            ("logits.npy", all.predicted.len(), Storage::F32, &logits[..]),
        ] {
            let extents = [rows as u64, (bytes.len() / 4 / rows.max(1)) as u64];
            files::write(&folder.join(file), |to| npy::write_as(to, &extents, storage, bytes))?;
        }
        Ok(())
    }

    /// Returns the run with its only record.
    fn with_record(&self, run: Run, outcome: Outcome) -> Run {
        let items = self.asked.items.len();
        let extents: Vec<(&str, usize)> = [("n", items)].into_iter().chain(self.extents.iter().copied()).collect();
        // A case string has no other separators.
        let stem =
            Path::new(self.data).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let option: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
        let numbers: Vec<String> = extents.iter().map(|(axis, extent)| format!("{axis}{extent}")).collect();
        let (workload, variant) = (self.kind.name(), self.variant);
        let dtype = self.options.dtype;
        let case = format!("{workload}/fwd/{},{option}/{}/{variant}", numbers.join(","), dtype.name());
        let parts = Parts {
            workload: workload.to_owned(),
            direction: "fwd".to_owned(),
            shape: extents.iter().map(|(axis, extent)| ((*axis).to_owned(), *extent as u64)).collect(),
            decimals: BTreeMap::new(),
            options: vec![option],
            dtype,
            variant: variant.to_owned(),
        };
        let cost = self.asked.network.cost(items, (items * self.asked.items.bytes()) as u64);
        let record = Record { case: case.clone(), parts, actual: None, device: 0, cost, items: None, outcome };
        Run { planned: vec![case], records: vec![record], ..run }
    }
}

fn shown(score: &Score) -> String {
    let [value, low, high] = [score.value, score.low, score.high].map(four_digits);
    format!("{:>24} {value:>10} [{low}, {high}] over {}", score.name, score.items)
}

/// Returns the beginning of a name from a file, for a column of the terminal.
pub fn short(name: &str) -> String {
    parallax_report::escape(&name.chars().take(20).collect::<String>()).into_owned()
}

/// Returns a list of names from the metadata of weights.
///
/// # Errors
/// Missing or damaged list, or fewer than `least` names.
pub fn names(weights: &Weights, key: &'static str, least: usize) -> anyhow::Result<Vec<String>> {
    serde_json::from_str(&weights.about::<String>(key)?)
        .ok()
        .filter(|names: &Vec<String>| names.len() >= least)
        .with_context(|| format!("metadata `{key}` is damaged"))
}

/// Whether weights were trained on the data of a hash.
pub fn knows(weights: &Weights, hash: &str) -> bool {
    weights.about.get("data").is_some_and(|data| data == hash)
}

/// Returns the rows of the training part of `count` rows.
///
/// # Errors
/// No row is held out.
pub fn parts(data: &str, count: usize, seed: u64) -> anyhow::Result<Vec<usize>> {
    let (training, held_out) = split(count, seed);
    if held_out.is_empty() {
        bail!("{data}: {count} rows are too few; a fifth is held out");
    }
    Ok(training)
}

/// Returns the rows that weights are evaluated on, and words about them: the held-out part of the data that they were trained on, or
/// all rows.
///
/// # Errors
/// Weights without a seed, or no row held out.
pub fn rows_of(weights: &Weights, data: &str, hash: &str, count: usize) -> anyhow::Result<(Vec<usize>, String)> {
    if !knows(weights, hash) {
        return Ok(((0..count).collect(), format!("all {count} rows")));
    }
    let seed: u64 = weights.about("seed")?;
    let rows = split(count, seed).1;
    if rows.is_empty() {
        bail!("{data}: no row is held out of {count}");
    }
    let words = format!("{} held-out rows, seed {seed}", rows.len());
    Ok((rows, words))
}

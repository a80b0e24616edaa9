//! Training of a classifier by the suite's own forward, backward and optimiser. Batches depend on seed and step alone, so a resumed
//! training ends with the weights of one without a pause.

use std::path::Path;

use anyhow::{Context, bail};
use parallax_model::classifier::{Classifier, INPUT, LOSSES, SCALED, TARGETS, fold, scaler, shuffled};
use parallax_model::data::Weights;
use parallax_model::layers::Arrays;
use parallax_schema::units::Nanos;

use super::machine::Machine;
use crate::files;
use crate::interrupts::interrupted;
use crate::progress::Progress;

/// Steps between two checkpoints.
const EVERY: usize = 100;

/// Settings of a training.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of the split, of the first weights and of the batches.
    pub seed: u64,
    /// Steps in all.
    pub steps: usize,
    /// Rows of a batch.
    pub batch: usize,
}

/// Table of the training part.
pub struct Part {
    /// Numbers, row by row.
    pub values: Vec<f32>,
    /// Class of each row.
    pub targets: Vec<usize>,
    /// Whether the rows are embedded texts.
    pub texts: bool,
}

/// State of a training: arrays, steps done, and the mean losses so far.
struct State {
    arrays: Arrays,
    done: usize,
    losses: Vec<f64>,
}

/// Result of a training.
pub struct Trained {
    /// Weights that take rows as they are.
    pub weights: Weights,
    /// Mean loss of each hundred steps.
    pub curve: Vec<f64>,
}

/// Trains a classifier. `checkpoint` names the file of checkpoints; `resume` continues from it.
///
/// # Errors
/// Error of the device or of the checkpoint; an interruption, after a checkpoint.
pub fn train(
    model: Classifier,
    (part, about): (&Part, &Weights),
    settings: &Settings,
    machine: &mut Machine,
    (checkpoint, resume): (&Path, bool),
) -> anyhow::Result<Trained> {
    let rows = part.targets.len();
    let scaling = scaled(model, part, machine)?;
    let table = scaling.as_ref().map_or_else(|| part.values.clone(), |scaling| scaling.f32(SCALED));
    let batch = settings.batch.min(rows);
    let layers = model.step(batch);
    let mut state = if resume { read(model, about, checkpoint)? } else { begin(model, settings.seed)? };
    let progress = Progress::new(machine.target);
    let began = std::time::Instant::now();
    let first = state.done;
    while state.done < settings.steps {
        let chosen = rows_of(state.done, rows, batch, settings.seed);
        let width = model.features;
        let values: Vec<f32> = chosen.iter().flat_map(|row| &table[row * width..][..width]).copied().collect();
        let targets: Vec<u32> = chosen.iter().map(|row| part.targets[*row] as u32).collect();
        state.arrays.set_f32(INPUT, &values);
        state.arrays.set_u32(TARGETS, &targets);
        machine.run(&layers, &mut state.arrays)?;
        let losses = state.arrays.f32(LOSSES);
        let loss = losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / losses.len() as f64;
        if !loss.is_finite() {
            progress.clear();
            bail!("the loss is {loss} in step {}: choose another seed or smaller numbers", state.done + 1);
        }
        state.losses.push(loss);
        state.done += 1;
        let stopped = interrupted() && state.done < settings.steps;
        if state.done.is_multiple_of(EVERY) || stopped {
            write(model, about, &state, checkpoint)?;
        }
        if stopped {
            progress.clear();
            bail!("stopped after step {}; --resume continues from {}", state.done, checkpoint.display());
        }
        let each = began.elapsed().as_nanos() as f64 / (state.done - first) as f64;
        progress.started(&format!("loss {loss:.4}"));
        progress.at(state.done as f64 / settings.steps as f64, Nanos(each * (settings.steps - state.done) as f64));
    }
    progress.clear();
    let mut weights = Weights { about: about.about.clone(), ..model.save(&state.arrays, false) };
    if let Some(scaling) = scaling {
        fold(&mut weights, &scaling.f32("mean"), &scaling.f32("variance"));
    }
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    Ok(Trained { weights, curve: state.losses.chunks(EVERY).map(mean).collect() })
}

/// Returns the scaled table with its means and variances; none for texts, whose columns have one scale.
fn scaled(model: Classifier, part: &Part, machine: &mut Machine) -> anyhow::Result<Option<Arrays>> {
    if part.texts {
        return Ok(None);
    }
    let mut scaling = Arrays::default();
    scaling.set_f32(INPUT, &part.values);
    machine.run(&[scaler(part.targets.len(), model.features)], &mut scaling)?;
    Ok(Some(scaling))
}

/// Returns the rows of the batch of a step. Each epoch has its own order; rows that fill no batch are left out of it.
fn rows_of(step: usize, rows: usize, batch: usize, seed: u64) -> Vec<usize> {
    let batches = rows / batch;
    let order = shuffled(rows, seed.wrapping_add(1 + (step / batches) as u64));
    order[step % batches * batch..][..batch].to_vec()
}

fn begin(model: Classifier, seed: u64) -> anyhow::Result<State> {
    let mut arrays = Arrays::default();
    model.load(&model.initial(seed), &mut arrays)?;
    Ok(State { arrays, done: 0, losses: Vec::new() })
}

/// Writes a checkpoint: parameters, averages, and the metadata of the training.
fn write(model: Classifier, about: &Weights, state: &State, path: &Path) -> anyhow::Result<()> {
    let mut weights = model.save(&state.arrays, true);
    weights.about = about.about.clone();
    weights.about.insert("done".to_owned(), state.done.to_string());
    weights.about.insert("losses".to_owned(), serde_json::to_string(&state.losses)?);
    let bytes = weights.to_bytes()?;
    files::write(path, |to| to.write_all(&bytes))
}

fn read(model: Classifier, about: &Weights, path: &Path) -> anyhow::Result<State> {
    let named = || path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read the checkpoint {}", path.display()))?;
    let weights = Weights::read(&bytes).with_context(named)?;
    if let Some((key, _)) = about.about.iter().find(|(key, value)| weights.about.get(*key) != Some(value)) {
        bail!("{}: it is of a training with another `{key}`", path.display());
    }
    let mut arrays = Arrays::default();
    model.load(&weights, &mut arrays).with_context(named)?;
    let losses: String = weights.about("losses").with_context(named)?;
    let losses: Vec<f64> = serde_json::from_str(&losses).with_context(named)?;
    let done = weights.about("done").with_context(named)?;
    if losses.len() != done {
        bail!("{}: it has {} losses of {done} steps", path.display(), losses.len());
    }
    Ok(State { arrays, done, losses })
}

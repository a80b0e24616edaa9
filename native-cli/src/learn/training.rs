//! Training of a network by the suite's own forward, backward and optimiser. Parameters and averages are in f32 at every element
//! type. Batches depend on seed and step alone, so a resumed training ends with the weights of one without a pause.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use parallax_model::data::Weights;
use parallax_model::examples::{Examples, items_of};
use parallax_model::layers::{Arrays, Layer};
use parallax_model::network::{LOSSES, Network, mean_loss};
use parallax_schema::case::DType;
use parallax_schema::units::Nanos;

use super::executor::Executor;
use super::loss_scale::LossScale;
use crate::files;
use crate::interrupts::interrupted;
use crate::progress::Progress;

/// Steps between two checkpoints, and of a point of the loss curve.
pub const EVERY: usize = 100;

/// Settings of a training.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of the split, of the first weights and of the batches.
    pub seed: u64,
    /// Steps in all.
    pub steps: usize,
    /// Items of a batch.
    pub batch: usize,
    /// Element type of the layers.
    pub dtype: DType,
    /// First scale of the loss; none for the default of the type.
    pub loss_scale: Option<u32>,
}

/// State of a training: arrays, steps done, the mean losses so far, and the scale of the loss.
struct State {
    arrays: Arrays,
    done: usize,
    losses: Vec<f64>,
    scale: Option<LossScale>,
}

/// Result of a training.
pub struct Trained {
    /// The parameters, without metadata.
    pub weights: Weights,
    /// Mean loss of each [`EVERY`] steps.
    pub curve: Vec<f64>,
    /// Last scale of the loss; none without one.
    pub scale: Option<LossScale>,
}

/// Network in training, with its metadata.
pub struct Course<'a> {
    /// The network.
    pub network: &'a dyn Network,
    /// Items of the training part.
    pub items: &'a dyn Examples,
    /// Metadata of the training.
    pub about: &'a BTreeMap<String, String>,
}

impl Course<'_> {
    /// Trains the network. `checkpoint` names the file of checkpoints; `resume` continues from it.
    ///
    /// # Errors
    /// Error of the device or of the checkpoint; an interruption, after a checkpoint.
    pub fn train(
        &self,
        settings: &Settings,
        executor: &mut Executor,
        (checkpoint, resume): (&Path, bool),
    ) -> anyhow::Result<Trained> {
        let count = self.items.len();
        let batch = settings.batch.min(count);
        let step = Step::new(self.network, batch, settings.dtype);
        let mut state = if resume { self.read(checkpoint, settings)? } else { self.begin(settings)? };
        let progress = Progress::new(executor.target);
        let began = std::time::Instant::now();
        let first = state.done;
        while state.done < settings.steps {
            let chosen = items_of(state.done, count, batch, settings.seed);
            self.items.batch(&chosen, settings.seed.wrapping_add(state.done as u64), &mut state.arrays);
            step.run(executor, &mut state)?;
            let loss = mean_loss(&state.arrays);
            if !loss.is_finite() {
                progress.clear();
                bail!("the loss is {loss} in step {}: choose another seed or smaller numbers", state.done + 1);
            }
            state.losses.push(loss);
            state.done += 1;
            let stopped = interrupted() && state.done < settings.steps;
            if state.done.is_multiple_of(EVERY) || stopped {
                self.write(&state, checkpoint)?;
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
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
        let weights = self.network.save(&state.arrays, false);
        Ok(Trained { weights, curve: state.losses.chunks(EVERY).map(mean).collect(), scale: state.scale })
    }

    fn begin(&self, settings: &Settings) -> anyhow::Result<State> {
        let mut arrays = Arrays::default();
        self.network.load(&self.network.initial(settings.seed), &mut arrays)?;
        let scale = LossScale::new(settings.dtype, settings.loss_scale);
        Ok(State { arrays, done: 0, losses: Vec::new(), scale })
    }

    /// Writes a checkpoint: parameters, averages, and the metadata of the training.
    fn write(&self, state: &State, path: &Path) -> anyhow::Result<()> {
        let mut weights = self.network.save(&state.arrays, true);
        weights.about = self.about.clone();
        weights.about.insert("done".to_owned(), state.done.to_string());
        weights.about.insert("losses".to_owned(), serde_json::to_string(&state.losses)?);
        if let Some(scale) = &state.scale {
            scale.write(&mut weights);
        }
        let bytes = weights.to_bytes()?;
        files::write(path, |to| to.write_all(&bytes))
    }

    fn read(&self, path: &Path, settings: &Settings) -> anyhow::Result<State> {
        let named = || path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read the checkpoint {}", path.display()))?;
        let weights = Weights::read(&bytes).with_context(named)?;
        if let Some((key, _)) = self.about.iter().find(|(key, value)| weights.about.get(*key) != Some(value)) {
            bail!("{}: it is of a training with another `{key}`", path.display());
        }
        let mut arrays = Arrays::default();
        self.network.load(&weights, &mut arrays).with_context(named)?;
        let losses: String = weights.about("losses").with_context(named)?;
        let losses: Vec<f64> = serde_json::from_str(&losses).with_context(named)?;
        let done = weights.about("done").with_context(named)?;
        if losses.len() != done {
            bail!("{}: it has {} losses of {done} steps", path.display(), losses.len());
        }
        let scale = match LossScale::new(settings.dtype, settings.loss_scale) {
            Some(_) => Some(LossScale::read(&weights).with_context(named)?),
            None => None,
        };
        Ok(State { arrays, done, losses, scale })
    }
}

/// Layers of a training step.
struct Step {
    /// Forward pass, loss and backward pass.
    gradients: Vec<Layer>,
    optimisers: Vec<Layer>,
    /// Arrays of the gradients of all parameters.
    arrays: BTreeSet<String>,
}

impl Step {
    /// Returns the layers of a step on `batch` items in an element type.
    fn new(network: &dyn Network, batch: usize, dtype: DType) -> Step {
        let gradients = network.gradients(batch).into_iter().map(|layer| layer.in_dtype(dtype)).collect();
        Step { gradients, optimisers: network.optimisers(), arrays: network.gradient_arrays() }
    }

    /// Computes the gradients, and changes the parameters unless a gradient overflowed.
    fn run(&self, executor: &mut Executor, state: &mut State) -> anyhow::Result<()> {
        let State { arrays, scale, .. } = state;
        if let Some(scale) = scale {
            scale.apply(arrays);
        }
        let wanted: Vec<&str> = self.arrays.iter().map(String::as_str).chain([LOSSES]).collect();
        executor.run_for(&wanted, &self.gradients, arrays)?;
        let sound = match scale {
            Some(scale) => scale.unscale(&self.arrays, arrays)?,
            None => true,
        };
        if sound { executor.run(&self.optimisers, arrays) } else { Ok(()) }
    }
}

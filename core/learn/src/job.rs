//! Job: all that an evaluation of a network needs from outside the device.

use parallax_model::data::{Weights, WeightsError};
use parallax_model::examples::Examples;
use parallax_model::layers::{Arrays, Layer};
use parallax_model::network::Network;
use parallax_schema::case::{DType, Storage};

use crate::passes::BATCH;

/// Inputs of all items.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Name of the array that the first layer takes.
    pub name: String,
    /// Element type: `F32` or `U32`.
    pub storage: Storage,
    /// Bytes of one item.
    pub item: usize,
    /// Little-endian elements, item by item.
    pub bytes: Vec<u8>,
}

/// Layers with their parameters and the inputs of all items.
#[derive(Debug, Clone)]
pub struct Job {
    /// Layers of a batch of [`BATCH`] items.
    pub batch: Vec<Layer>,
    /// Layers of one item.
    pub single: Vec<Layer>,
    /// Parameters by name, in f32. Layers of another element type take them rounded.
    pub parameters: Arrays,
    /// The inputs.
    pub input: Input,
    /// Logits of one item: classes of each of its rows.
    pub logits: usize,
}

impl Job {
    /// Returns the job of a network with weights on items, in an element type.
    ///
    /// # Errors
    /// Missing parameter, or other extents.
    pub fn new(
        network: &dyn Network,
        weights: &Weights,
        items: &dyn Examples,
        dtype: DType,
    ) -> Result<Job, WeightsError> {
        let layers =
            |items: usize| network.forward(items).into_iter().map(|layer| layer.in_dtype(dtype)).collect::<Vec<_>>();
        let mut parameters = Arrays::default();
        for (name, shape) in network.parameters() {
            parameters.set_f32(&name, weights.tensor(&name, &shape)?);
        }
        let (name, storage) = items.input();
        let mut inputs = Arrays::default();
        items.inputs(&(0..items.len()).collect::<Vec<_>>(), &mut inputs);
        let bytes = inputs.bytes(name).unwrap_or_default().to_vec();
        Ok(Job {
            batch: layers(BATCH),
            single: layers(1),
            parameters,
            input: Input { name: name.to_owned(), storage, item: items.bytes(), bytes },
            logits: network.rows() * network.classes(),
        })
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.input.bytes.len() / self.input.item
    }

    /// Puts the inputs of some items, by their numbers below [`Job::items`], into arrays.
    pub fn inputs(&self, items: &[usize], arrays: &mut Arrays) {
        let Input { name, storage, item, bytes } = &self.input;
        arrays.set(name, *storage, items.iter().flat_map(|at| &bytes[at * item..][..*item]).copied().collect());
    }
}

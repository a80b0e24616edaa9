//! Operations of a model, with equal ones counted together.

use std::collections::HashMap;

use parallax_schema::record::Operation;
use parallax_schema::units::Nanos;

use crate::problems::StandIn;
use crate::{MOST_OPERATIONS, ModelError};

/// Collector of operations.
#[derive(Default)]
pub struct Tally {
    operations: Vec<Operation>,
    /// Positions by kind, layer, and coverage with cost.
    places: HashMap<(String, String, String), usize>,
}

impl Tally {
    /// Adds an operation of a kind in a layer, `count` times. `traced` is the time of its kernels in all executions together.
    ///
    /// # Errors
    /// Too many different operations.
    pub fn add(
        &mut self,
        (kind, layer): (&str, &str),
        count: u64,
        stand_in: StandIn,
        traced: Option<Nanos>,
    ) -> Result<(), ModelError> {
        let StandIn { coverage, cost } = stand_in;
        let key = (kind.to_owned(), layer.to_owned(), format!("{coverage:?} {cost:?}"));
        if let Some(place) = self.places.get(&key) {
            let operation = &mut self.operations[*place];
            operation.count = operation.count.saturating_add(count);
            operation.traced = operation.traced.zip(traced).map(|(a, b)| a + b).or(operation.traced).or(traced);
            return Ok(());
        }
        if self.operations.len() >= MOST_OPERATIONS {
            return Err(ModelError::TooManyOperations(self.operations.len()));
        }
        self.places.insert(key, self.operations.len());
        let (kind, layer) = (kind.chars().take(120).collect(), layer.to_owned());
        self.operations.push(Operation { kind, layer, count, cost, coverage, traced });
        Ok(())
    }

    /// Returns the operations in the order of their first execution. Traced times become times of one execution.
    pub fn finish(self) -> Vec<Operation> {
        let one = |operation: Operation| Operation {
            traced: operation.traced.map(|all| Nanos(all.0 / operation.count.max(1) as f64)),
            ..operation
        };
        self.operations.into_iter().map(one).collect()
    }
}

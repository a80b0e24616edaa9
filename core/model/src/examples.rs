//! Examples: items with inputs and true classes, their parts and their batches.

use parallax_ir::{Draw, splitmix64};
use parallax_schema::case::Storage;
use parallax_schema::record::of_networks;

use crate::layers::Arrays;
use crate::network::TARGETS;

/// Array of the input rows.
pub const INPUT: &str = "x";

/// Items that a network learns from or answers.
pub trait Examples {
    /// Number of items.
    fn len(&self) -> usize;

    /// Name and type of the array of inputs.
    fn input(&self) -> (&'static str, Storage) {
        (INPUT, Storage::F32)
    }

    /// Puts the inputs of some items into arrays.
    fn inputs(&self, items: &[usize], arrays: &mut Arrays);

    /// Puts inputs and true classes of the items of a training step into arrays. `seed` is that of the step.
    fn batch(&self, items: &[usize], seed: u64, arrays: &mut Arrays);

    /// Bytes of the inputs of an item.
    fn bytes(&self) -> usize;

    /// Name of the rate of a pass over all items, and its count.
    fn rate(&self) -> (&'static str, usize) {
        (of_networks::SAMPLES, self.len())
    }

    /// Whether there is no item.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows of numbers, with a class for each.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Numbers, row by row.
    pub values: Vec<f32>,
    /// Numbers of a row.
    pub width: usize,
    /// Class of each row.
    pub targets: Vec<usize>,
}

impl Rows {
    /// Returns some of the rows.
    pub fn some(&self, rows: &[usize]) -> Rows {
        let values = rows.iter().flat_map(|row| self.row(*row)).copied().collect();
        Rows { values, width: self.width, targets: rows.iter().map(|row| self.targets[*row]).collect() }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }
}

impl Examples for Rows {
    fn len(&self) -> usize {
        self.targets.len()
    }

    fn inputs(&self, items: &[usize], arrays: &mut Arrays) {
        arrays.set_f32(INPUT, &self.some(items).values);
    }

    fn batch(&self, items: &[usize], _seed: u64, arrays: &mut Arrays) {
        self.inputs(items, arrays);
        arrays.set_u32(TARGETS, &items.iter().map(|item| self.targets[*item] as u32).collect::<Vec<_>>());
    }

    fn bytes(&self) -> usize {
        4 * self.width
    }
}

/// Returns positions `0..count` in a seeded order.
pub fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|at| (Draw::new(splitmix64(seed), *at as u64).bits(), *at));
    order
}

/// Returns the positions of the training part and of the held-out part, a fifth of `count` items, in a seeded order.
pub fn split(count: usize, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut training = shuffled(count, seed);
    let held_out = training.split_off(count - count / 5);
    (training, held_out)
}

/// Returns the items of the batch of a step. Each epoch has its own order; items that fill no batch are left out of it.
pub fn items_of(step: usize, items: usize, batch: usize, seed: u64) -> Vec<usize> {
    let batches = items / batch;
    let order = shuffled(items, seed.wrapping_add(1 + (step / batches) as u64));
    order[step % batches * batch..][..batch].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_seeded_and_disjoint() {
        let (training, held_out) = split(101, 3);
        assert_eq!((training.len(), held_out.len()), (81, 20));
        let mut all = [training.clone(), held_out].concat();
        all.sort_unstable();
        assert_eq!(all, (0..101).collect::<Vec<_>>());
        assert!(split(101, 3).0 == training && split(101, 4).0 != training);
    }

    #[test]
    fn an_epoch_has_each_item_once_at_most() {
        let mut all: Vec<usize> = (0..3).flat_map(|step| items_of(step, 11, 3, 5)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9);
        assert_ne!(items_of(0, 11, 3, 5), items_of(3, 11, 3, 5));
    }
}

//! Batches with repeated items: the reference of a thousand items computes only the first few.

use parallax_ir::parallel::*;
use parallax_ir::{Draw, Inputs};

/// Number of distinct items. Two reveal a swap of neighbours. A smaller batch has no equal items.
pub(crate) const DIFFERENT: u64 = 2;

/// Normal numbers for items of `elements` elements.
pub(crate) fn normal_items(draw: Draw, elements: u64) -> f64 {
    draw.repeating(DIFFERENT * elements).normal()
}

/// Values of each item of a batch, computed once for equal items.
///
/// All values are computed at once, on the calling thread. Lazy computation inside parallel tasks could deadlock. A task that is
/// parallel itself may run another task, which waits for the same value.
pub(crate) struct Items<T> {
    /// Index of the value of each item.
    places: Vec<usize>,
    known: Vec<T>,
}

impl<T> Items<T> {
    /// Values of items that are equal in all `buffers`, with `elements` elements each. An array from the user need not repeat.
    /// `make` takes an item and the number of items equal to it.
    pub(crate) fn new(
        inputs: &Inputs,
        buffers: &[usize],
        [items, elements]: [u64; 2],
        make: impl FnMut(u64, f64) -> T,
    ) -> Items<T> {
        let like = |item: u64| {
            let first = item % DIFFERENT;
            let at = |item: u64, at: u64, buffer: &usize| inputs.at(*buffer, item * elements + at);
            let same = |i| buffers.iter().all(|buffer| at(item, i, buffer) == at(first, i, buffer));
            if (0..elements).all(same) { first } else { item }
        };
        Items::alike((0..items).into_par_iter().map(like).collect(), make)
    }

    /// Values of items that are all distinct.
    pub(crate) fn each(items: u64, make: impl FnMut(u64, f64) -> T) -> Items<T> {
        Items::alike((0..items).collect(), make)
    }

    /// Values from the first equal item of each item.
    fn alike(like: Vec<u64>, mut make: impl FnMut(u64, f64) -> T) -> Items<T> {
        let mut firsts: Vec<u64> = like.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let place = |item: &u64| firsts.binary_search(item).expect("one of them");
        let places: Vec<usize> = like.iter().map(place).collect();
        let mut counts = vec![0.0; firsts.len()];
        places.iter().for_each(|place| counts[*place] += 1.0);
        Items { places, known: firsts.into_iter().zip(counts).map(|(item, count)| make(item, count)).collect() }
    }

    /// Values for further computation, one per group of equal items.
    pub(crate) fn known_mut(&mut self) -> &mut [T] {
        &mut self.known
    }

    /// Value of an item.
    pub(crate) fn item(&self, item: u64) -> &T {
        &self.known[self.places[item as usize]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use parallax_ir::Problem;
    use parallax_schema::case::{DType, Direction};

    #[test]
    fn items_that_repeat_are_made_once_and_others_on_their_own() {
        let workload = find("attention_block").expect("registered");
        let problem = Problem::new(workload, Direction::Fwd, "b5,h1,s2,d2", DType::F32).expect("valid");
        let made = |inputs: &Inputs| {
            let mut counts = Vec::new();
            let items = Items::new(inputs, &[0], [5, 4], |item, count| {
                counts.push((item, count));
                item
            });
            ((0..5).map(|item| *items.item(item)).collect::<Vec<u64>>(), counts)
        };
        let mut inputs = problem.inputs(7);
        assert_eq!(made(&inputs), (vec![0, 1, 0, 1, 0], vec![(0, 3.0), (1, 2.0)]));
        let mut bytes: Vec<u8> = (0..20).flat_map(|at| (inputs.at(0, at) as f32).to_le_bytes()).collect();
        bytes[4 * 15..4 * 16].copy_from_slice(&9f32.to_le_bytes());
        inputs.replace(0, bytes).expect("as many");
        assert_eq!(made(&inputs), (vec![0, 1, 0, 3, 0], vec![(0, 3.0), (1, 1.0), (3, 1.0)]));
    }
}

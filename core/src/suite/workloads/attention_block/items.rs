//! Batches whose items repeat: the reference of a thousand of them goes through no more than the first few.

use crate::suite::parallel::*;

use crate::suite::{Draw, Inputs};

/// Items that differ. Whatever mixes up neighbours is seen; a shape with fewer has none that are alike.
pub(in crate::suite) const DIFFERENT: u64 = 2;

/// Normal numbers for items of so many elements.
pub(in crate::suite) fn normal_items(draw: Draw, elements: u64) -> f64 {
    draw.repeating(DIFFERENT * elements).normal()
}

/// What is known of each item of a batch, made once for those that are alike.
///
/// Everything is made at once, on the thread that asks for it: what is made on demand by one of many parallel tasks, in parallel
/// itself, may take up another of them in the meantime that waits for the same thing.
pub(in crate::suite) struct Items<T> {
    /// For each item the place of what is known of it.
    places: Vec<usize>,
    known: Vec<T>,
}

impl<T> Items<T> {
    /// Items are alike that are in all of these buffers, of so many elements each. An array that somebody gave need not repeat.
    /// What is made is of an item and so many like it.
    pub(in crate::suite) fn of(
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

    /// Items that are all on their own.
    pub(in crate::suite) fn each(items: u64, make: impl FnMut(u64, f64) -> T) -> Items<T> {
        Items::alike((0..items).collect(), make)
    }

    /// For each item the first that is like it.
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

    /// What is known, once for those that are alike: to go on with.
    pub(in crate::suite) fn known_mut(&mut self) -> &mut [T] {
        &mut self.known
    }

    /// What is known of an item.
    pub(in crate::suite) fn item(&self, item: u64) -> &T {
        &self.known[self.places[item as usize]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{DType, Direction, Problem, find};

    #[test]
    fn items_that_repeat_are_made_once_and_others_on_their_own() {
        let workload = find("attention_block").expect("registered");
        let problem = Problem::new(workload, Direction::Fwd, "b5,h1,s2,d2", DType::F32).expect("valid");
        let made = |inputs: &Inputs| {
            let mut counts = Vec::new();
            let items = Items::of(inputs, &[0], [5, 4], |item, count| {
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

//! Batches whose items repeat: the reference of a thousand of them goes through no more than the first few.

use rayon::prelude::*;

use crate::suite::{Draw, Inputs};

/// Items that differ. Whatever mixes up neighbours is seen; a shape with fewer has none that are alike.
const DIFFERENT: u64 = 2;

/// Normal numbers for items of so many elements.
pub(in crate::suite) fn normal_items(draw: Draw, elements: u64) -> f64 {
    draw.repeating(DIFFERENT * elements).normal()
}

/// For each item of a batch the first that is like it in all of these buffers, of so many elements each. An array that somebody
/// gave need not repeat.
pub(in crate::suite) fn first_alike(inputs: &Inputs, buffers: &[usize], items: u64, elements: u64) -> Vec<u64> {
    let alike = |item: u64| {
        let like = item % DIFFERENT;
        let same =
            |at| buffers.iter().all(|b| inputs.at(*b, item * elements + at) == inputs.at(*b, like * elements + at));
        if (0..elements).all(same) { like } else { item }
    };
    (0..items).into_par_iter().map(alike).collect()
}

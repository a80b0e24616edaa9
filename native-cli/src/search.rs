//! Search over values of tunables. It has no side effects, and receives the result of each trial.

use std::collections::BTreeSet;

use parallax_ir::splitmix64;

/// Maximum number of combinations for an exhaustive search.
const SMALL: usize = 32;

/// Search over values of several tunables. It starts from working values.
#[derive(Debug, Clone)]
pub struct Search {
    /// Candidates of each tunable.
    axes: Vec<Vec<u32>>,
    best: Vec<u32>,
    tried: BTreeSet<Vec<u32>>,
    waiting: Vec<Vec<u32>>,
    /// Remaining axes of the descent; empty in an exhaustive search. An improvement resets them.
    axes_left: Vec<usize>,
    descends: bool,
    draws: u64,
}

impl Search {
    /// Returns a search. It tries a small number of combinations exhaustively, in random order. Otherwise it descends
    /// along one axis after another, each time from the best so far, until no axis improves it.
    pub fn new(axes: Vec<Vec<u32>>, start: Vec<u32>, seed: u64) -> Search {
        let combinations = axes.iter().map(Vec::len).fold(1usize, usize::saturating_mul);
        let mut search = Search {
            best: start.clone(),
            tried: BTreeSet::from([start]),
            waiting: Vec::new(),
            axes_left: Vec::new(),
            descends: combinations > SMALL,
            draws: seed,
            axes,
        };
        if search.descends {
            search.axes_left = (0..search.axes.len()).collect();
        } else {
            search.waiting = search.axes.iter().fold(vec![Vec::new()], |all, axis| {
                let longer = |one: &Vec<u32>| axis.iter().map(|v| [&one[..], &[*v]].concat()).collect::<Vec<_>>();
                all.iter().flat_map(longer).collect()
            });
        }
        search
    }

    /// Returns the best values so far.
    pub fn best(&self) -> &[u32] {
        &self.best
    }

    /// Returns the expected number of trials, for the distribution of time.
    pub fn size(&self) -> usize {
        if self.descends { self.axes.iter().map(|axis| axis.len() - 1).sum() } else { self.waiting.len().max(1) - 1 }
    }

    /// Records that the last trial is the best so far.
    pub fn won(&mut self, values: Vec<u32>) {
        self.best = values;
        if self.descends {
            self.axes_left = (0..self.axes.len()).collect();
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.draws = self.draws.wrapping_add(1);
        (splitmix64(self.draws) % below as u64) as usize
    }
}

impl Iterator for Search {
    type Item = Vec<u32>;

    /// Returns the values of the next trial.
    fn next(&mut self) -> Option<Vec<u32>> {
        loop {
            while !self.waiting.is_empty() {
                let index = self.draw(self.waiting.len());
                let values = self.waiting.swap_remove(index);
                if self.tried.insert(values.clone()) {
                    return Some(values);
                }
            }
            if self.axes_left.is_empty() {
                return None;
            }
            let index = self.draw(self.axes_left.len());
            let axis = self.axes_left.swap_remove(index);
            let along = |value: &u32| {
                let mut values = self.best.clone();
                values[axis] = *value;
                values
            };
            self.waiting = self.axes[axis].iter().map(along).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minimises a function. Returns the minimum and the number of trials.
    fn least(axes: Vec<Vec<u32>>, start: Vec<u32>, of: impl Fn(&[u32]) -> f64) -> (Vec<u32>, usize) {
        let mut search = Search::new(axes, start, 7);
        let mut trials = 0;
        while let Some(values) = search.next() {
            trials += 1;
            if of(&values) < of(search.best()) {
                search.won(values);
            }
        }
        (search.best().to_vec(), trials)
    }

    #[test]
    fn a_small_space_is_swept_once() {
        let axes = vec![vec![1, 2, 4], vec![8, 16]];
        assert_eq!(Search::new(axes.clone(), vec![1, 8], 1).size(), 5);
        // No single step from the start leads to the minimum.
        let of = |v: &[u32]| if v == [4, 16] { 0.0 } else { 1.0 + f64::from(v[0] + v[1]) };
        assert_eq!(least(axes, vec![1, 8], of), (vec![4, 16], 5));
    }

    #[test]
    fn a_large_space_is_walked_axis_by_axis() {
        let axis: Vec<u32> = (0..20).collect();
        let of = |v: &[u32]| f64::from(v[0].abs_diff(13)) + 2.0 * f64::from(v[1].abs_diff(3)) + f64::from(v[2]);
        let (found, trials) = least(vec![axis.clone(), axis.clone(), axis], vec![10, 10, 10], of);
        assert_eq!(found, [13, 3, 0]);
        assert!(trials < 200, "{trials} of 8000");
    }

    #[test]
    fn nothing_is_tried_twice_and_the_start_not_at_all() {
        let axis: Vec<u32> = (0..8).collect();
        let tried: Vec<Vec<u32>> = Search::new(vec![axis.clone(), axis.clone(), axis], vec![0, 0, 0], 3).collect();
        let distinct: BTreeSet<&Vec<u32>> = tried.iter().collect();
        assert_eq!((tried.len(), distinct.len()), (21, 21));
        assert!(!tried.contains(&vec![0, 0, 0]));
        assert_eq!(Search::new(Vec::new(), Vec::new(), 3).next(), None);
    }
}

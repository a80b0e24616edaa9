//! Repeatability: comparison of the outputs of two executions of a case.
//!
//! A fingerprint compares all bits of all outputs, so that no copy of them is kept. Where it differs, kept elements give the size
//! of the difference. They are an even choice of the elements that are compared with the reference.

use parallax_schema::record::{Difference, Repeatable};

/// Largest number of elements that are kept of one execution, which bounds host memory (1 MiB).
const KEPT: usize = 1 << 16;

/// Digest of the outputs of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputDigest {
    /// Fingerprint of all bits, in order.
    fingerprint: u64,
    /// Number of elements of which one is kept.
    stride: usize,
    /// Number of elements so far.
    offered: usize,
    /// Value, and the bound on its error.
    kept: Vec<(f64, f64)>,
}

impl Default for OutputDigest {
    fn default() -> OutputDigest {
        OutputDigest::new(0)
    }
}

impl OutputDigest {
    /// Returns an empty digest for `elements` elements.
    pub fn new(elements: usize) -> OutputDigest {
        OutputDigest { fingerprint: 0, stride: elements.div_ceil(KEPT).max(1), offered: 0, kept: Vec::new() }
    }

    /// Adds the next bytes of the outputs.
    pub fn bits(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(8);
        let mut rest = [0; 8];
        rest[..words.remainder().len()].copy_from_slice(words.remainder());
        let words = words.map(|word| word.try_into().expect("eight bytes")).chain([rest]);
        // Each step is a bijection of the word and of the state before it: a single different word always shows.
        let step = |hash: u64, word: [u8; 8]| {
            (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        self.fingerprint = words.fold(self.fingerprint, step);
    }

    /// Adds the next compared elements: their number, and a function of the position among them that returns an element's value
    /// and the bound on its error.
    pub fn elements(&mut self, count: usize, element: impl Fn(usize) -> (f64, f64)) {
        let first = self.offered.next_multiple_of(self.stride) - self.offered;
        self.kept.extend((first..count).step_by(self.stride).map(element));
        self.offered += count;
    }

    /// Returns an empty digest for the elements from number `offered` on, to be appended.
    pub fn part(&self, offered: usize) -> OutputDigest {
        OutputDigest { fingerprint: 0, offered, kept: Vec::new(), ..*self }
    }

    /// Appends the digest of the bytes and elements that follow.
    pub fn append(&mut self, part: OutputDigest) {
        self.bits(&part.fingerprint.to_le_bytes());
        self.offered = part.offered;
        self.kept.extend(part.kept);
    }

    /// Whether two digests keep the same elements.
    #[cfg(test)]
    pub fn keeps_the_same(&self, other: &OutputDigest) -> bool {
        (self.offered, &self.kept) == (other.offered, &other.kept)
    }

    /// Returns how another execution of the same case repeats this one.
    pub fn repeated_by(&self, again: &OutputDigest) -> Repeatable {
        if self.fingerprint == again.fingerprint {
            return Repeatable::Bitwise;
        }
        let mut difference = Difference { by: 0.0, of_bound: 0.0 };
        for ((first, bound), (second, _)) in self.kept.iter().zip(&again.kept) {
            let by = (first - second).abs();
            // Both checks passed, so a value that is not finite is the same in both.
            if by.is_finite() && by > 0.0 {
                difference.by = difference.by.max(by);
                difference.of_bound = difference.of_bound.max(by / bound.max(f64::MIN_POSITIVE)).min(f64::MAX);
            }
        }
        Repeatable::Differs(difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(values: &[f32]) -> OutputDigest {
        let mut left = OutputDigest::new(values.len());
        for piece in values.chunks(5) {
            left.bits(&piece.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        }
        left.elements(values.len(), |i| (f64::from(values[i]), 0.5));
        left
    }

    #[test]
    fn the_same_bits_are_the_same_and_others_say_by_how_much() {
        let values: Vec<f32> = (0..17).map(|i| i as f32).collect();
        let mut other = values.clone();
        assert_eq!(left(&values).repeated_by(&left(&values)), Repeatable::Bitwise);
        (other[3], other[16]) = (3.25, 15.0);
        let differs = Repeatable::Differs(Difference { by: 1.0, of_bound: 2.0 });
        assert_eq!(left(&values).repeated_by(&left(&other)), differs);
        assert_eq!(left(&other).repeated_by(&left(&values)), differs);
        // Equal as numbers, with different bits.
        let none = Repeatable::Differs(Difference { by: 0.0, of_bound: 0.0 });
        assert_eq!(left(&[0.0, f32::NAN]).repeated_by(&left(&[-0.0, f32::NAN])), none);
    }

    #[test]
    fn of_many_elements_an_even_choice_is_kept() {
        let elements = 5 * KEPT + 3;
        let mut left = OutputDigest::new(elements);
        left.elements(elements, |i| (i as f64, 1.0));
        assert!(left.kept.len() <= KEPT && left.kept.len() > KEPT / 2);
        assert!(left.kept.last().expect("many").0 > 0.99 * elements as f64);
    }
}

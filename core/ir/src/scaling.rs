//! Tables of a workload's time along one extent, with the two sides that they compare.

use parallax_schema::catalog::Sides;
use parallax_schema::device::Dialect;

/// Shapes that differ in one extent, and two ways of computing each. The extent's axis refers to it ([`super::Axis::scaling`]).
#[derive(Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Noun for the extent, in the plural: `rows`.
    pub counts: &'static str,
    /// Axis by which the extent is divided for display: `c` batches, where the table shows rows per batch.
    pub per: Option<&'static str>,
    /// Canonical shapes, in ascending order of the extent.
    pub shapes: &'static [&'static str],
    /// Sides of the comparison.
    pub sides: Sides,
}

impl Scaling {
    /// Returns the shapes to measure in a dialect. On a device: the listed shapes with each option for the place of the data. For
    /// host code: the listed shapes, if it is one of the sides.
    pub fn shapes_in(&self, dialect: Dialect) -> Vec<String> {
        match (dialect, self.sides) {
            (Dialect::Cpu, Sides::Variants { .. }) => Vec::new(),
            (Dialect::Cpu, Sides::HostAndDevice { .. }) => {
                self.shapes.iter().map(|shape| (*shape).to_owned()).collect()
            }
            _ => self.on_device(),
        }
    }

    fn on_device(&self) -> Vec<String> {
        let words = self.sides.data().iter().map(|(word, _)| *word);
        let with = |shape: &str, word: &str| if word.is_empty() { shape.to_owned() } else { format!("{shape},{word}") };
        self.shapes.iter().flat_map(|shape| words.clone().map(|word| with(shape, word))).collect()
    }
}

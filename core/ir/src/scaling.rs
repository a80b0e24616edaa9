//! Tables of a workload's time along one extent, with the two sides that they compare.

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

/// Sides of the comparison at each shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// Host code, on the target `cpu`, and the fastest variant on a device.
    HostAndDevice {
        /// Shape options that decide where the data lies, with a readable meaning. All of them are measured on the device, and
        /// compared with the same time of the host. Empty if the workload has no such option.
        data: &'static [(&'static str, &'static str)],
    },
    /// Two variants on the same device.
    Variants {
        /// Variant that is the base of the comparison.
        base: &'static str,
        /// Variant that may be faster.
        other: &'static str,
        /// Difference of the other variant from the base, as a noun: `prefetching`.
        doing: &'static str,
    },
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
        let words = self.data().iter().map(|(word, _)| *word);
        let with = |shape: &str, word: &str| if word.is_empty() { shape.to_owned() } else { format!("{shape},{word}") };
        self.shapes.iter().flat_map(|shape| words.clone().map(|word| with(shape, word))).collect()
    }

    /// Options for the place of the data on a device, in table order. At least one, which may be empty.
    pub fn data(&self) -> &'static [(&'static str, &'static str)] {
        match self.sides {
            Sides::HostAndDevice { data: [] } | Sides::Variants { .. } => &[("", "")],
            Sides::HostAndDevice { data } => data,
        }
    }
}

//! Tables of a workload's time along one extent, with the two sides that they compare.

use super::Dialect;

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

#[cfg(test)]
mod tests {
    use crate::suite::{Shape, Sides, all};

    #[test]
    fn scalings_rise_along_their_axis_in_canonical_shapes_that_are_valid() {
        let mut found = 0;
        for workload in all() {
            let Some((axis, scaling)) = workload.scaling() else { continue };
            found += 1;
            let parse = |text: &str| Shape::parse(workload.axes, text).unwrap_or_else(|e| panic!("{e}"));
            let extents: Vec<u64> = scaling.shapes.iter().map(|text| parse(text)[axis.key]).collect();
            assert!(extents.windows(2).all(|pair| pair[0] < pair[1]), "{}: {extents:?}", workload.name);
            for text in scaling.on_device() {
                let shape = parse(&text);
                assert_eq!(shape.to_string(), text);
                assert_eq!((workload.validate)(&shape), Ok(()), "{text}");
                let by = scaling.per.map_or(1, |key| shape[key]);
                assert!(shape[axis.key].is_multiple_of(by), "{text}");
            }
            if let Sides::Variants { base, other, .. } = scaling.sides {
                let known = |name| workload.forms.iter().all(|form| form.variant(name).is_some());
                assert!(known(base) && known(other), "{}: {base}, {other}", workload.name);
            }
        }
        assert!(found > 2, "{found}");
    }
}

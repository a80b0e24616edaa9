//! Along which extent a workload's time is told as a table, and what is held against what there.

use super::Dialect;

/// Shapes that differ in one extent, whose axis has this ([`super::Axis::scaling`]), and two ways of computing each.
#[derive(Debug, PartialEq, Eq)]
pub struct Scaling {
    /// What the extent counts, in the plural: `rows`.
    pub counts: &'static str,
    /// An axis by which the extent is divided before it is told: `c` batches, where rows of a batch are told.
    pub per: Option<&'static str>,
    /// Canonical shapes, the extent rising.
    pub shapes: &'static [&'static str],
    /// What is held against what.
    pub sides: Sides,
}

/// What is held against what at each shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// The host's code, on the target `cpu`, against the fastest variant on a device.
    HostAndDevice {
        /// Words of the shape that decide where the data lies, and what each means for people: all of them are measured on the
        /// device, and held against the same time of the host. Empty where the workload has no such choice.
        data: &'static [(&'static str, &'static str)],
    },
    /// Two variants on the same device.
    Variants {
        /// The one that the other is held against.
        base: &'static str,
        /// The one that may pay.
        other: &'static str,
        /// What the other one does that the base does not, as a noun: `prefetching`.
        doing: &'static str,
    },
}

impl Scaling {
    /// Every shape that is measured in a dialect: on a device those listed, with each word for where the data lies; by the host's
    /// code those listed, if it is one of the sides.
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

    /// Where the data lies on a device, in the order of the table: one word at least, which may be empty.
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

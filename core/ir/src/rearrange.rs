//! Copies of elements between layouts: rows split by heads, heads merged, matrices concatenated by columns.

use parallax_schema::case::{Cost, DType};
use parallax_schema::device::Caps;
use parallax_schema::units::gcd;

use super::Access::{Read, Write};
use super::{Elem, Stage, by_pieces};

/// Strided copy. `extents` counts elements; those along the last extent are contiguous in source and destination. Each other
/// extent has a stride in the source and one in the destination. Both have an offset of the first element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rearrange {
    /// Extents in elements, slowest first.
    pub extents: [u64; 4],
    /// Strides in the source.
    pub from: [u64; 3],
    /// Strides in the destination.
    pub to: [u64; 3],
    /// First element in the source.
    pub first_from: u64,
    /// First element in the destination.
    pub first_to: u64,
}

impl Rearrange {
    /// Returns the copy from rows of `[batch, s, heads, d]` to dense `[batch, heads, s, d]`. A row has `width` elements, of which
    /// its own begin at `first`.
    pub fn split_heads([batch, heads, s, d]: [u64; 4], width: u64, first: u64) -> Rearrange {
        Rearrange {
            extents: [batch, heads, s, d],
            from: [s * width, d, width],
            to: [heads * s * d, s * d, d],
            first_from: first,
            first_to: 0,
        }
    }

    /// Returns the inverse copy.
    pub fn reversed(self) -> Rearrange {
        Rearrange { from: self.to, to: self.from, first_from: self.first_to, first_to: self.first_from, ..self }
    }

    /// Returns the copy of a dense matrix into columns of a wider one, from column `first` on.
    pub fn beside([rows, columns]: [u64; 2], width: u64, first: u64) -> Rearrange {
        Rearrange {
            extents: [1, 1, rows, columns],
            from: [0, 0, columns],
            to: [0, 0, width],
            first_from: 0,
            first_to: first,
        }
    }

    /// Returns a stage from one buffer to another.
    pub fn stage(self, dtype: DType, caps: &Caps, [from, to]: [&'static str; 2]) -> Stage {
        let Rearrange { extents, from: source, to: target, first_from, first_to } = self;
        // Vectors need strides and offsets that are multiples of their width.
        let steps = source.iter().chain(&target).chain([&first_from, &first_to]);
        let common = steps.fold(extents[3], |common, step| gcd(common, *step));
        let width = super::width(common, dtype, caps);
        let elements: u64 = extents.iter().product();
        let [.., n1, n2, n3] = extents;
        let counts = [("N1", n1), ("N2", n2), ("N3", n3 / width)];
        let distances = [
            ("FROM0", source[0]),
            ("FROM1", source[1]),
            ("FROM2", source[2]),
            ("TO0", target[0]),
            ("TO1", target[1]),
            ("TO2", target[2]),
            ("FIRST_FROM", first_from),
            ("FIRST_TO", first_to),
        ];
        let bytes = elements * Elem::Real.storage(dtype).bytes();
        let text = "lib/rearrange";
        by_pieces(elements / width, width, text, "rearrange")
            .consts(&counts.map(|(name, value)| (name, value as u32)))
            .consts(&distances.map(|(name, value)| (name, (value / width) as u32)))
            .args([("given", from, Read), ("moved", to, Write)])
            .cost(Cost::new(0, bytes, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use parallax_schema::testing::caps;

    /// Source and destination index of each element.
    fn moves(r: Rearrange) -> Vec<(u64, u64)> {
        let [n0, n1, n2, n3] = r.extents;
        let at = |first: u64, steps: [u64; 3], [a, b, c, d]: [u64; 4]| {
            first + a * steps[0] + b * steps[1] + c * steps[2] + d
        };
        let all = (0..n0 * n1 * n2 * n3).map(|i| [i / (n1 * n2 * n3), i / (n2 * n3) % n1, i / n3 % n2, i % n3]);
        all.map(|i| (at(r.first_from, r.from, i), at(r.first_to, r.to, i))).collect()
    }

    #[test]
    fn heads_are_split_and_put_together_again() {
        let split = Rearrange::split_heads([2, 3, 5, 7], 63, 21);
        let found = moves(split);
        // Item 1, head 2, row 4, element 6: row 9 of all, in its second third.
        let (item, head, row, x) = (1, 2, 4, 6);
        let from = (item * 5 + row) * 63 + 21 + head * 7 + x;
        assert_eq!(found.last(), Some(&(from, 2 * 3 * 5 * 7 - 1)));
        assert!(found.iter().map(|(_, to)| *to).eq(0..210), "all of it, in order");
        let back: Vec<(u64, u64)> = found.iter().map(|(from, to)| (*to, *from)).collect();
        assert_eq!(moves(split.reversed()), back);
    }

    #[test]
    fn pieces_are_as_wide_as_every_distance_allows() {
        let width = |r: Rearrange| {
            let stage = r.stage(DType::F32, &caps(), ["a", "b"]);
            let kernel = stage.kernel_launch().expect("a kernel").clone();
            kernel.consts.iter().find(|(name, _)| *name == "WIDTH").expect("given").1
        };
        assert_eq!(width(Rearrange::split_heads([1, 2, 3, 8], 48, 16)), Value::U32(4));
        assert_eq!(width(Rearrange::split_heads([1, 2, 3, 8], 48, 17)), Value::U32(1));
        assert_eq!(width(Rearrange::beside([3, 6], 18, 6)), Value::U32(1));
        assert_eq!(width(Rearrange::beside([3, 4], 12, 8)), Value::U32(4));
    }
}

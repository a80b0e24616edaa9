//! Division of buffers among the ranks of a group, a row of the slowest extent for each.

use std::ops::Range;

use parallax_ir::device::BackendError;
use parallax_ir::{BufferSpec, Place};
use parallax_schema::case::DType;

/// Part of a buffer on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    ranks: u64,
    /// Elements on a rank.
    pub(crate) elements: u64,
    /// Bytes on a rank.
    pub(crate) bytes: u64,
}

impl Split {
    /// Returns the division of a buffer among `ranks` ranks.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] for a buffer without a row for each rank.
    pub(crate) fn new(spec: &BufferSpec, dtype: DType, ranks: u64) -> Result<Split, BackendError> {
        if spec.place != Place::EachRank || spec.ranks() != ranks {
            return Err(BackendError::Unsupported(format!("`{}` has no row for each of {ranks} GPUs", spec.name)));
        }
        let elements = spec.len / ranks;
        Ok(Split { ranks, elements, bytes: elements * spec.elem.storage(dtype).bytes() })
    }

    /// Returns the ranks that have bytes of a range of the whole buffer, in order, each with its own range.
    ///
    /// # Errors
    /// [`BackendError::Device`] for a range beyond the end.
    pub(crate) fn parts(&self, range: Range<u64>) -> Result<Vec<(usize, Range<u64>)>, BackendError> {
        let whole = self.ranks * self.bytes;
        if range.start > range.end || range.end > whole {
            return Err(BackendError::Device(format!(
                "bytes {}..{} lie outside a buffer of {whole}",
                range.start, range.end
            )));
        }
        let part = |rank: u64| {
            let first = rank * self.bytes;
            let [start, end] = [range.start, range.end].map(|edge| edge.clamp(first, first + self.bytes) - first);
            (start < end).then_some((rank as usize, start..end))
        };
        Ok((0..self.ranks).filter_map(part).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::{Elem, normal};

    fn split(ranks: u64) -> Result<Split, BackendError> {
        let spec = BufferSpec::input("x", Elem::Real, &[3, 5], normal).at(Place::EachRank);
        Split::new(&spec, DType::F16, ranks)
    }

    #[test]
    fn ranges_are_read_from_the_ranks_that_have_them() {
        let split = split(3).expect("three rows");
        assert_eq!((split.elements, split.bytes), (5, 10));
        for (range, want) in [
            (0..30, vec![(0, 0..10), (1, 0..10), (2, 0..10)]),
            (0..10, vec![(0, 0..10)]),
            (4..12, vec![(0, 4..10), (1, 0..2)]),
            (10..20, vec![(1, 0..10)]),
            (28..30, vec![(2, 8..10)]),
            (7..7, vec![]),
        ] {
            assert_eq!(split.parts(range.clone()).expect("inside"), want, "{range:?}");
        }
        assert!(split.parts(0..31).is_err());
    }

    #[test]
    fn a_buffer_without_a_row_for_each_rank_is_refused() {
        assert!(matches!(split(2), Err(BackendError::Unsupported(why)) if why.contains("`x` has no row")));
        let on_one = BufferSpec::input("x", Elem::Real, &[2, 5], normal);
        assert!(Split::new(&on_one, DType::F32, 2).is_err());
    }
}

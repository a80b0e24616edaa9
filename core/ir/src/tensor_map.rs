//! Tensor maps of NVIDIA's copy engine (TMA, from compute capability 9.0 on).

use parallax_schema::units::Bytes;

use parallax_schema::case::Storage;

/// Tensor in a buffer, for instructions that copy a box to or from shared memory. Parts of a box outside the tensor are read as
/// zeros and not written.
///
/// Axes are in the order of [`BufferSpec`](super::BufferSpec)'s extents, slowest first. Coordinates in kernel sources are in the
/// reverse order, as in the instruction set: the first is that of the last axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMap {
    /// Extents of the tensor in elements.
    pub dims: Vec<u64>,
    /// Stride in bytes of every axis but the last, whose elements are contiguous.
    pub strides: Vec<u64>,
    /// Extents of a box in elements.
    pub tile: Vec<u32>,
    /// Swizzle of a box's rows.
    pub swizzle: Swizzle,
}

/// Layout of a box's rows in shared memory. In a row of the given length, 16-byte pieces are permuted. The address bits of the
/// piece are flipped by the bits of the row. Rows shorter than 128 bytes are permuted by pairs or fours. Rows and columns of a
/// matrix then have no bank conflicts.
///
/// The pattern depends on the address: a box must begin on a multiple of eight times the row's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Swizzle {
    /// No permutation.
    #[default]
    None,
    /// Rows of 32 bytes.
    Bytes32,
    /// Rows of 64 bytes.
    Bytes64,
    /// Rows of 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// Longest row that it can place. A box's row must not be longer.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }
}

/// Violation of a rule of the copy engine, or an access beyond the buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// Too few or too many axes.
    #[error("it has {0} axes, a tensor map has 1 to 5")]
    Rank(usize),
    /// Lists of inconsistent lengths.
    #[error("it has {dims} extents, {strides} strides and a box of {tile}: strides are one fewer than axes")]
    Lists {
        /// Number of extents.
        dims: usize,
        /// Number of strides.
        strides: usize,
        /// Number of extents of the box.
        tile: usize,
    },
    /// Extent outside the engine's range.
    #[error("an extent is {0}, a tensor map's are 1 to 2^32")]
    Extent(u64),
    /// Stride that the engine does not support.
    #[error("a stride is {0} bytes, a tensor map's are multiples of 16 below 2^40")]
    Stride(u64),
    /// Box that is too large along an axis, or empty.
    #[error("a box has {0} elements along an axis, the most are 256 and the fewest 1")]
    Tile(u32),
    /// Row of a box that is no multiple of 16 bytes.
    #[error("a row of a box has {0} bytes, it must be a multiple of 16")]
    Row(u64),
    /// Row of a box that is longer than the swizzle.
    #[error("a row of a box has {row} bytes, a swizzle of {swizzle} bytes has no place for more")]
    Swizzled {
        /// Bytes of the row.
        row: u64,
        /// Bytes of the swizzle.
        swizzle: u64,
    },
    /// Tensor that exceeds the buffer.
    #[error("it reaches to {needs}, the buffer has {has}")]
    Beyond {
        /// End of the tensor's last element.
        needs: Bytes,
        /// Size of the buffer.
        has: Bytes,
    },
}

impl TensorMap {
    /// Returns the map of a whole dense row-major array, with boxes of these extents.
    pub fn dense(dims: &[u64], element: Storage, tile: &[u32], swizzle: Swizzle) -> TensorMap {
        let after = |axis: usize| dims[axis + 1..].iter().product::<u64>() * element.bytes();
        let strides = (0..dims.len().saturating_sub(1)).map(after).collect();
        TensorMap { dims: dims.to_vec(), strides, tile: tile.to_vec(), swizzle }
    }

    /// Bytes of one box in shared memory. A barrier must expect this number of a copy, even if the box exceeds the tensor's edge.
    pub fn box_bytes(&self, element: Storage) -> u64 {
        self.tile.iter().map(|extent| u64::from(*extent)).product::<u64>() * element.bytes()
    }

    /// Checks whether the copy engine supports this map on a buffer of this size. The rules are those of
    /// `cuTensorMapEncodeTiled`, which does not name the violated one. The check also covers the bounds of the buffer, unknown to
    /// that function.
    ///
    /// # Errors
    /// First violated rule.
    pub fn check(&self, element: Storage, buffer: Bytes) -> Result<(), TensorMapError> {
        let (dims, strides, tile) = (self.dims.len(), self.strides.len(), self.tile.len());
        if !(1..=5).contains(&dims) {
            return Err(TensorMapError::Rank(dims));
        }
        if strides + 1 != dims || tile != dims {
            return Err(TensorMapError::Lists { dims, strides, tile });
        }
        if let Some(extent) = self.dims.iter().find(|extent| !(1..=1 << 32).contains(*extent)) {
            return Err(TensorMapError::Extent(*extent));
        }
        if let Some(stride) = self.strides.iter().find(|stride| !stride.is_multiple_of(16) || **stride >= 1 << 40) {
            return Err(TensorMapError::Stride(*stride));
        }
        if let Some(extent) = self.tile.iter().find(|extent| !(1..=256).contains(*extent)) {
            return Err(TensorMapError::Tile(*extent));
        }
        let row = u64::from(self.tile[dims - 1]) * element.bytes();
        if !row.is_multiple_of(16) {
            return Err(TensorMapError::Row(row));
        }
        if let Some(swizzle) = self.swizzle.bytes().filter(|swizzle| row > *swizzle) {
            return Err(TensorMapError::Swizzled { row, swizzle });
        }
        let strides = self.strides.iter().copied().chain([element.bytes()]);
        // Neither factor has more than 40 bits.
        let last: u128 = self.dims.iter().zip(strides).map(|(n, stride)| u128::from(n - 1) * u128::from(stride)).sum();
        let needs = Bytes(u64::try_from(last).unwrap_or(u64::MAX).saturating_add(element.bytes()));
        if needs > buffer {
            return Err(TensorMapError::Beyond { needs, has: buffer });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> TensorMap {
        TensorMap::dense(&[100, 64], Storage::F16, &[128, 64], Swizzle::Bytes128)
    }

    const WHOLE: Bytes = Bytes(12_800);

    #[test]
    fn a_dense_array_has_its_rows_side_by_side_and_boxes_may_hang_over() {
        let map = TensorMap::dense(&[3, 5, 8], Storage::F32, &[1, 4, 8], Swizzle::Bytes32);
        assert_eq!(map.strides, [160, 32]);
        assert_eq!(map.box_bytes(Storage::F32), 128);
        assert_eq!(map.check(Storage::F32, Bytes(480)), Ok(()));
        assert_eq!(matrix().check(Storage::F16, WHOLE), Ok(()));
        assert_eq!(TensorMap::dense(&[7], Storage::U32, &[4], Swizzle::None).check(Storage::U32, Bytes(28)), Ok(()));
    }

    #[test]
    fn columns_in_groups_are_an_axis_of_their_own() {
        let grouped = TensorMap { dims: vec![3, 100, 64], strides: vec![128, 384], tile: vec![2, 64, 64], ..matrix() };
        assert_eq!(grouped.check(Storage::BF16, Bytes(38_400)), Ok(()));
    }

    #[test]
    fn each_broken_rule_is_told() {
        let refused = |map: TensorMap, part: &str| {
            let said = map.check(Storage::F16, WHOLE).expect_err(part).to_string();
            assert!(said.contains(part), "{said}");
        };
        let none = TensorMap { dims: vec![], strides: vec![], tile: vec![], ..matrix() };
        refused(none, "it has 0 axes, a tensor map has 1 to 5");
        refused(TensorMap { strides: vec![128, 2], ..matrix() }, "2 extents, 2 strides and a box of 2");
        refused(TensorMap { dims: vec![0, 64], ..matrix() }, "an extent is 0");
        refused(TensorMap { strides: vec![120], ..matrix() }, "a stride is 120 bytes");
        refused(TensorMap { tile: vec![257, 64], ..matrix() }, "a box has 257 elements along an axis");
        refused(
            TensorMap { tile: vec![64, 12], ..matrix() },
            "a row of a box has 24 bytes, it must be a multiple of 16",
        );
        let wide = TensorMap { swizzle: Swizzle::Bytes64, ..matrix() };
        refused(wide, "a row of a box has 128 bytes, a swizzle of 64 bytes has no place for more");
        refused(TensorMap { dims: vec![101, 64], ..matrix() }, "it reaches to 12.9 kB, the buffer has 12.8 kB");
    }
}

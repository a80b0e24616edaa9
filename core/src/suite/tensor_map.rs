//! Tensors as an NVIDIA device's copy engine sees them (TMA, from compute capability 9.0 on).

use super::Storage;
use crate::units::Bytes;

/// A buffer as a tensor of which one instruction copies a box to or from shared memory. What of a box lies outside of the
/// tensor is read as zeros and not written.
///
/// Axes are in the order of [`BufferSpec`](super::BufferSpec)'s extents, slowest first. Coordinates in kernel texts are
/// the other way around, as in the instruction set: the first is that of the last axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMap {
    /// Extents of the tensor in elements.
    pub dims: Vec<u64>,
    /// Bytes from one element to the next along every axis but the last, whose elements lie side by side.
    pub strides: Vec<u64>,
    /// Extents of a box in elements.
    pub tile: Vec<u32>,
    /// Where the parts of a box's rows go.
    pub swizzle: Swizzle,
}

/// How rows of a box lie in shared memory. In a row of so many bytes, pieces of 16 bytes change places: the bits of the
/// address that number the piece are flipped by those that number the row (by pairs or fours of rows, where rows are
/// shorter than 128 bytes). Then neither the rows nor the columns of a matrix meet in a bank.
///
/// The pattern is one of addresses: a box must begin on a multiple of eight times the row's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Swizzle {
    /// One after the other.
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
    /// The longest row that it can place; a box's row must not be longer.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }
}

/// What the copy engine cannot do, or what would reach beyond the buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// Too few or too many axes.
    #[error("it has {0} axes, a tensor map has 1 to 5")]
    Rank(usize),
    /// The lists are not those of one tensor.
    #[error("it has {dims} extents, {strides} strides and a box of {tile}: strides are one fewer than axes")]
    Lists {
        /// Extents.
        dims: usize,
        /// Strides.
        strides: usize,
        /// Extents of the box.
        tile: usize,
    },
    /// An extent that cannot be counted.
    #[error("an extent is {0}, a tensor map's are 1 to 2^32")]
    Extent(u64),
    /// Rows that the engine cannot find.
    #[error("a stride is {0} bytes, a tensor map's are multiples of 16 below 2^40")]
    Stride(u64),
    /// A box that is too large along an axis, or empty.
    #[error("a box has {0} elements along an axis, the most are 256 and the fewest 1")]
    Tile(u32),
    /// Rows of a box that are no whole pieces.
    #[error("a row of a box has {0} bytes, it must be a multiple of 16")]
    Row(u64),
    /// Rows of a box that are longer than what is swizzled.
    #[error("a row of a box has {row} bytes, a swizzle of {swizzle} bytes has no place for more")]
    Swizzled {
        /// What the row has.
        row: u64,
        /// What there is room for.
        swizzle: u64,
    },
    /// The tensor does not lie in the buffer.
    #[error("it reaches to {needs}, the buffer has {has}")]
    Beyond {
        /// The end of the tensor's last element.
        needs: Bytes,
        /// The buffer.
        has: Bytes,
    },
}

impl TensorMap {
    /// All of a dense row-major array of elements of so many bytes, in boxes of these extents.
    pub fn dense(dims: &[u64], element: Storage, tile: &[u32], swizzle: Swizzle) -> TensorMap {
        let after = |axis: usize| dims[axis + 1..].iter().product::<u64>() * element.bytes();
        let strides = (0..dims.len().saturating_sub(1)).map(after).collect();
        TensorMap { dims: dims.to_vec(), strides, tile: tile.to_vec(), swizzle }
    }

    /// Bytes of one box in shared memory: what a barrier is told to expect of a copy, also where the box hangs over the
    /// tensor's edge.
    pub fn box_bytes(&self, element: Storage) -> u64 {
        self.tile.iter().map(|extent| u64::from(*extent)).product::<u64>() * element.bytes()
    }

    /// Whether the copy engine can do this on a buffer of so many bytes: the rules of `cuTensorMapEncodeTiled`, which
    /// itself does not say which of them was broken, and that the tensor lies in the buffer, which it cannot know.
    ///
    /// # Errors
    /// The first rule that is broken.
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

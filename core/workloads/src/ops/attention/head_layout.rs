//! Positions of heads in a buffer: matrices of their own, or columns of common rows.

use parallax_ir::{Swizzle, TensorMap};

/// Columns of a box: rows of 128 bytes, the longest swizzle.
pub(super) const COLUMNS: u64 = 64;
const ELEMENT: u64 = 2;

/// Layout of the heads of items in a buffer of 16-bit elements. Strides are in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadLayout {
    /// Number of items.
    items: u64,
    /// Number of heads of an item.
    heads: u64,
    /// Rows and columns of a head.
    rows: u64,
    columns: u64,
    /// Heads of other tensors before the first one, at the same stride.
    pub(super) first: u64,
    item_stride: u64,
    head_stride: u64,
    row_stride: u64,
}

impl HeadLayout {
    /// Dense `[items, heads, rows, columns]`.
    pub(super) fn matrices([items, heads, rows, columns]: [u64; 4]) -> HeadLayout {
        let head_stride = rows * columns;
        let item_stride = heads * head_stride;
        HeadLayout { items, heads, rows, columns, first: 0, item_stride, head_stride, row_stride: columns }
    }

    /// Heads from number `first` on, in dense rows of `in_row` heads: `[items, rows, in_row, columns]`.
    pub(super) fn in_rows([items, heads, rows, columns]: [u64; 4], in_row: u64, first: u64) -> HeadLayout {
        let row_stride = in_row * columns;
        let item_stride = rows * row_stride;
        HeadLayout { items, heads, rows, columns, first, item_stride, head_stride: columns, row_stride }
    }

    /// Tensor of axes item, head, row and column, in boxes of `tile` rows and 64 columns. Heads before the first are part of it.
    pub(super) fn tensor(self, tile: u64) -> TensorMap {
        TensorMap {
            dims: vec![self.items, self.first + self.heads, self.rows, self.columns],
            strides: [self.item_stride, self.head_stride, self.row_stride].map(|stride| stride * ELEMENT).to_vec(),
            tile: vec![1, 1, tile as u32, COLUMNS as u32],
            swizzle: Swizzle::Bytes128,
        }
    }

    /// Strides from item to item, head to head and row to row.
    pub(super) fn strides(self) -> [u64; 3] {
        [self.item_stride, self.head_stride, self.row_stride]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::case::Storage;
    use parallax_schema::units::Bytes;

    #[test]
    fn heads_of_three_tensors_share_rows() {
        let extents = [2, 4, 10, 72];
        let values = HeadLayout::in_rows(extents, 12, 8);
        assert_eq!(values.strides(), [10 * 12 * 72, 72, 12 * 72]);
        let map = values.tensor(64);
        assert_eq!((&map.dims[..], &map.strides[..]), (&[2, 12, 10, 72][..], &[17280, 144, 1728][..]));
        let whole = Bytes(2 * 10 * 12 * 72 * 2);
        assert_eq!(map.check(Storage::BF16, whole), Ok(()), "the last head ends with the buffer");
        assert!(map.check(Storage::BF16, Bytes(whole.0 - 2)).is_err());
    }

    #[test]
    fn matrices_are_dense() {
        let map = HeadLayout::matrices([2, 4, 10, 64]).tensor(128);
        let dense = TensorMap::dense(&[2, 4, 10, 64], Storage::F16, &[1, 1, 128, 64], Swizzle::Bytes128);
        assert_eq!(map, dense);
    }
}

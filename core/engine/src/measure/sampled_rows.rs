//! Choice of the rows of an output that are compared with the reference.

/// Choice of rows to compare.
pub(super) struct SampledRows {
    /// Number of rows.
    pub(super) total: u64,
    /// Reference work of a row.
    pub(super) cost: u64,
    /// Number of rows of which one is taken.
    stride: u64,
}

impl SampledRows {
    /// Returns as many rows as `work` allows, and at least four.
    pub(super) fn choose(total: u64, cost: u64, work: u64) -> SampledRows {
        let affordable = (work / cost).clamp(4, total.max(4));
        SampledRows { total, cost, stride: total.div_ceil(affordable).max(1) }
    }

    /// The first row, the last row, and one row at a pseudo-random place in each stretch of `stride` rows.
    pub(super) fn contains(&self, row: u64) -> bool {
        row == 0 || row + 1 == self.total || row % self.stride == self.place(row / self.stride)
    }

    /// Number of chosen rows before a row.
    pub(super) fn before(&self, row: u64) -> u64 {
        let (stretch, within) = (row / self.stride, row % self.stride);
        let first_row_too = row > 0 && self.place(0) != 0;
        stretch + u64::from(self.place(stretch) < within) + u64::from(first_row_too)
    }

    fn place(&self, stretch: u64) -> u64 {
        parallax_ir::splitmix64(stretch + 1) % self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_outputs_are_compared_in_full_and_large_ones_in_part() {
        const WORK: u64 = 100_000_000;
        let all = SampledRows::choose(1000, 10, WORK);
        assert!((0..1000).all(|r| all.contains(r)));
        let some = SampledRows::choose(1_000_000, 1_000_000, WORK);
        let chosen: Vec<u64> = (0..1_000_000).filter(|r| some.contains(*r)).collect();
        assert!((100..=102).contains(&chosen.len()), "{}", chosen.len());
        assert_eq!((chosen[0], chosen[chosen.len() - 1]), (0, 999_999));
        let gaps: std::collections::BTreeSet<u64> = chosen.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.len() > 50, "rows must not fall on a regular grid, which tiles might favour");
    }

    #[test]
    fn chosen_rows_are_counted_without_a_list() {
        for total in [1, 2, 5, 16, 97, 1000] {
            for work in [4, 5, 8, 50, 2000] {
                let rows = SampledRows::choose(total, 1, work);
                let mut before = 0;
                for row in 0..total {
                    assert_eq!(rows.before(row), before, "row {row} of {total} for {work}");
                    before += u64::from(rows.contains(row));
                }
            }
        }
    }
}

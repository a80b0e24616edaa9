//! Stable sort of integer keys that also returns their original positions. It is a radix sort by counting, from the lowest digit
//! to the highest (Knuth, The Art of Computer Programming, volume 3, 5.2.5).
//!
//! Each pass has two stages. The first counts the occurrences of each digit in each stretch of the keys. The second moves the
//! keys of a stretch behind those of smaller digits, and behind equal digits of earlier stretches. There are at most
//! [`MOST_STRETCHES`], so that the work is proportional to the number of keys. The order never depends on a race, so that every
//! run has the same result.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, Elem, Stage};
use parallax_schema::case::Cost;

/// Sort of integer keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// Number of keys.
    pub items: u64,
    /// Exclusive upper bound of all keys.
    pub below: u64,
}

/// Buffers of a sort, all of `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sorted {
    /// Keys, which remain unchanged.
    pub keys: &'static str,
    /// Keys in sorted order.
    pub sorted: &'static str,
    /// Position in `keys` of each sorted key.
    pub order: &'static str,
    /// Sorted keys and positions between passes.
    pub between: [&'static str; 2],
    /// Counts of digits.
    pub counts: &'static str,
}

/// Threads of a workgroup, and least number of digit values. Each thread processes some of them.
const THREADS: u64 = 256;
/// Largest number of stretches. One workgroup processes each.
const MOST_STRETCHES: u64 = 64;
/// Least keys of each thread in a stretch, if there are enough. Counts of fewer stretches are summed faster.
const FEWEST_TILES: u64 = 2;
/// Largest number of bits of a digit. The data of each digit value lies in workgroup memory.
const MOST_BITS: u32 = 10;

impl Sort {
    fn stretches(&self) -> u64 {
        self.items.div_ceil(FEWEST_TILES * THREADS).min(MOST_STRETCHES)
    }

    /// Number of passes, and bits of a digit.
    fn passes(&self) -> (u32, u32) {
        let bits = (u64::BITS - (self.below - 1).leading_zeros()).max(1);
        let passes = bits.div_ceil(MOST_BITS);
        (passes, bits.div_ceil(passes).max(THREADS.ilog2()))
    }

    /// Returns the buffers that it writes, as scratch.
    pub fn scratch(&self, names: Sorted) -> [BufferSpec; 5] {
        let counts = self.stretches() << self.passes().1;
        let [sorted, order] = names.between;
        let of = |name, len| BufferSpec::scratch(name, Elem::U32, &[len]);
        let like_keys = [names.sorted, names.order, sorted, order].map(|name| of(name, self.items));
        let [a, b, c, d] = like_keys;
        [a, b, c, d, of(names.counts, counts)]
    }

    /// Returns two stages for each pass. The last one writes the result.
    pub fn stages(&self, names: Sorted) -> Vec<Stage> {
        let (passes, bits) = self.passes();
        let (stretches, bins) = (self.stretches(), 1u64 << bits);
        let tiles = self.items.div_ceil(THREADS * stretches);
        let consts = [("ITEMS", self.items), ("BINS", bins), ("TILES", tiles), ("THREADS", THREADS)];
        let launch = |label: String, text, entry, pass: u32| {
            Stage::kernel(label, text, entry)
                .consts(&consts.map(|(name, value)| (name, value as u32)))
                .consts(&[("SHIFT", pass * bits)])
                .threads([THREADS as u32, 1, 1])
                .grid([stretches as u32, 1, 1])
        };
        let (keys, table) = (4 * self.items, 4 * stretches * bins);
        let pass = |pass: u32| {
            // Passes alternate between two pairs of buffers. The last one writes the result.
            let result = [names.sorted, names.order];
            let to = |pass: u32| if (passes - pass) % 2 == 1 { result } else { names.between };
            let later = pass > 0;
            let from = if later { to(pass - 1) } else { [names.keys; 2] };
            let counted = launch(format!("sort_count_{}", pass + 1), "lib/sort_count", "sort_count", pass)
                .args([("keys", from[0], Read), ("counts", names.counts, Write)])
                .shared(4 * bins as u32)
                .cost(Cost::new(0, keys, table));
            let [sorted, order] = to(pass);
            let moved = [
                ("counts", names.counts, Read),
                ("keys", from[0], Read),
                ("sorted", sorted, Write),
                ("order", order, Write),
            ];
            let before = later.then_some(("before", from[1], Read));
            let placed = launch(format!("sort_place_{}", pass + 1), "lib/sort_place", "sort_place", pass)
                .consts(&[("STRETCHES", stretches as u32)])
                .consts(&[("FIRST", !later), ("LATER", later)])
                .args(moved.into_iter().chain(before).map(Arg::from))
                .shared(4 * (bins + THREADS) as u32)
                .cost(Cost::new(0, table + keys * if later { 2 } else { 1 }, 2 * keys));
            [counted, placed]
        };
        (0..passes).flat_map(pass).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Value;

    const NAMES: Sorted = Sorted { keys: "k", sorted: "s", order: "o", between: ["s2", "o2"], counts: "c" };

    #[test]
    fn passes_cover_every_bit_of_the_keys_and_end_in_the_result() {
        for (items, below, passes, bits, stretches) in [
            (1, 1, 1, 8, 1),
            (256, 2, 1, 8, 1),
            (513, 1024, 1, 10, 2),
            (1500, 1025, 2, 8, 3),
            (16_384, 10_000, 2, 8, 32),
            (65_536, 1 << 20, 2, 10, 64),
            (1 << 20, (1 << 20) + 1, 3, 8, 64),
            (9, 1 << 32, 4, 8, 1),
        ] {
            let sort = Sort { items, below };
            assert_eq!(sort.passes(), (passes, bits), "{sort:?}");
            assert!(passes * bits >= u64::BITS - (below - 1).leading_zeros(), "{sort:?}");
            let stages = sort.stages(NAMES);
            assert_eq!(stages.len(), 2 * passes as usize, "{sort:?}");
            let buffers = |stage: &Stage| stage.args.iter().map(|arg| arg.buffer).collect::<Vec<_>>();
            let last = stages.last().expect("one pass at least");
            assert_eq!(buffers(last)[2..4], ["s", "o"], "{sort:?}");
            assert_eq!(buffers(&stages[0]), ["k", "c"], "{sort:?}");
            for pair in stages.windows(2).skip(1).step_by(2) {
                assert_eq!(buffers(&pair[0])[2], buffers(&pair[1])[0], "a pass counts the output of the one before it");
            }
            for stage in &stages {
                let kernel = stage.kernel_launch().expect("kernels");
                let value = |name: &str| match kernel.consts.iter().find(|(known, _)| *known == name) {
                    Some((_, Value::U32(value))) => u64::from(*value),
                    other => panic!("{name}: {other:?}"),
                };
                assert_eq!(u64::from(kernel.grid[0]), stretches, "{sort:?}");
                assert!(stretches * value("TILES") * THREADS >= items, "{sort:?}: every key has a thread");
                assert!(kernel.shared_bytes <= 16_384, "{sort:?}: WebGPU promises no more");
            }
        }
    }
}

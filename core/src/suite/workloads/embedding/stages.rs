//! Stages that take rows of tables and give their gradients back, for this workload and those that are built on it.
//!
//! Items are what takes a row: index `i` of so many, of a table for each place of an item modulo `tables`. One table is the
//! plain case.

use crate::suite::Access::{Read, Write};
use crate::suite::{
    Allowed, Arg, BufferSpec, Caps, Cost, DType, Dialect, Elem, Sort, Sorted, Stage, Tunable, by_pieces, spread,
    text_for, width,
};

/// Which items take rows, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct Taken {
    /// How many items a launch looks at: the one at `first`, and every `step`-th from there on.
    pub items: u64,
    pub first: u64,
    pub step: u64,
    /// Tables, one behind the other: item `i` takes a row of the one at `i` modulo this.
    pub tables: u64,
    /// Rows of each table.
    pub rows: u64,
    /// Elements of a row.
    pub columns: u64,
    pub dtype: DType,
}

/// How many pieces a thread moves at once.
pub(in crate::suite) const AT_ONCE: Tunable = Tunable {
    name: "AT_ONCE",
    about: "pieces that each thread has under way at once",
    allowed: Allowed::OneOf(&[1, 2, 4, 8]),
    default: 4,
};

impl Taken {
    /// Every item of one table.
    pub fn of_one(items: u64, rows: u64, columns: u64, dtype: DType) -> Taken {
        Taken { items, first: 0, step: 1, tables: 1, rows, columns, dtype }
    }

    fn bytes(&self) -> u64 {
        Elem::Real.storage(self.dtype).bytes()
    }

    fn at_items(&self, stage: Stage) -> Stage {
        let consts = [("FIRST", self.first), ("STEP", self.step), ("TABLES", self.tables), ("TABLE_ROWS", self.rows)];
        stage.consts(&consts.map(|(name, value)| (name, value as u32)))
    }

    /// Rows moved in pieces of 16 bytes where they can be, and several pieces by each thread. Buffers are the indices, the tables
    /// and what is made; `different` rows are read, and those that are read again are in a cache.
    pub fn gather(&self, caps: &Caps, at_once: u32, different: u64, [index, table, out]: [&'static str; 3]) -> Stage {
        // Nothing is computed, so that WGSL may take any sixteen bytes for four words.
        let whole = caps.dialect == Dialect::Wgsl && (self.columns * self.bytes()).is_multiple_of(16);
        let width = match (whole, caps.dialect) {
            (true, _) => 16 / self.bytes(),
            (false, Dialect::Wgsl) => 1,
            _ => width(self.columns, self.dtype, caps),
        };
        let pieces = self.columns / width;
        let count = self.items * pieces;
        let made = self.items * self.columns * self.bytes();
        let texts = ["embedding/rows", "embedding/rows1", "embedding/rows16"];
        let stage = by_pieces(count, width, caps, texts, "embedding_rows")
            .consts(&[("PIECES", pieces as u32), ("AT_ONCE", at_once)])
            .args([("index", index, Read), ("table", table, Read), ("out", out, Write)])
            .costing(Cost::new(0, 4 * self.items + different * self.columns * self.bytes(), made));
        let threads = u64::from(stage.kernel_launch().expect("a kernel").workgroup[0]);
        self.at_items(stage).grid(spread(count.div_ceil(threads * u64::from(at_once))))
    }

    /// Gradients added to sums of zeros where their rows were taken. WGSL has no floating-point atomics, and adds element by element.
    pub fn scatter(&self, caps: &Caps, [index, dout, sums]: [&'static str; 3]) -> Stage {
        let width = if caps.dialect == Dialect::Wgsl { 1 } else { width(self.columns, self.dtype, caps) };
        let pieces = self.columns / width;
        let elements = self.items * self.columns;
        let met = elements.min(self.tables * self.rows * self.columns) * 4;
        let texts = ["embedding/scatter"; 3];
        let stage = by_pieces(self.items * pieces, width, caps, texts, "embedding_scatter")
            .consts(&[("PIECES", pieces as u32)])
            .args([("index", index, Read), ("dout", dout, Read), ("sums", sums, Write)])
            .costing(Cost::new(elements, 4 * self.items + elements * self.bytes() + met, met));
        self.at_items(stage)
    }
}

/// Zeros, what is added to them by `adding`, and sums in the element type where they are not made in place: `sums` is f32 and stands
/// in for the result, of so many elements, where that is not.
pub(in crate::suite) fn added_to_zeros(
    elements: u64,
    dtype: DType,
    caps: &Caps,
    [sums, result]: [&'static str; 2],
    adding: impl FnOnce(&'static str) -> Vec<Stage>,
) -> Vec<Stage> {
    let in_place = dtype == DType::F32;
    let to = if in_place { result } else { sums };
    let mut all = vec![Stage::fill("zeros", to, 0).costing(Cost::new(0, 0, 4 * elements))];
    all.extend(adding(to));
    if !in_place {
        let bytes = Elem::Real.storage(dtype).bytes();
        let width = width(elements, dtype, caps);
        let texts = ["embedding/narrow", "embedding/narrow1", "embedding/narrow4"];
        let stage = by_pieces(elements / width, width, caps, texts, "embedding_narrow")
            .args([("sums", sums, Read), ("result", result, Write)])
            .costing(Cost::new(0, 4 * elements, bytes * elements));
        all.push(stage.called("narrow"));
    }
    all
}

/// Sums over items that took the same row, which a sort has put side by side. Each of so many stretches of sorted items is gone
/// through by the threads of a row. What begins and ends in a stretch is written where it belongs; what goes on in the next one is
/// left in two parts, for where it ends and where it begins, and joined by a stage of its own. Nothing is atomic, so that the result
/// is the same in every run; rows that no item took are zeros from before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct Segments {
    /// Sorted items.
    pub items: u64,
    /// Rows of gradients that they take their terms from: as many as there are items, or fewer where several share one.
    pub sources: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Elements of a row.
    pub columns: u64,
    pub dtype: DType,
    /// What else is known of an item.
    pub with: With,
}

/// What an item's term is made with, beside the row of gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::suite) struct With {
    /// The row of gradients of each item, none where it is not below `sources`. Otherwise that of its own number.
    pub bag: Option<&'static str>,
    /// A factor for each item, in f32.
    pub scale: Option<&'static str>,
    /// For each element of the gradients the one item that it goes to.
    pub winner: Option<&'static str>,
}

/// Fewest items of a stretch, and most stretches: enough to fill any device, and few enough for what is joined to be little.
const FEWEST: u64 = 16;
const MOST_STRETCHES: u64 = 8192;
/// Threads of a workgroup, and most that share a row.
const THREADS: u64 = 256;
const MOST_LANES: u64 = 32;

impl Segments {
    fn stretch(&self) -> u64 {
        self.items.div_ceil(MOST_STRETCHES).next_power_of_two().max(FEWEST)
    }

    fn stretches(&self) -> u64 {
        self.items.div_ceil(self.stretch())
    }

    /// The two parts of each stretch.
    pub fn scratch(&self, name: &'static str) -> BufferSpec {
        BufferSpec::scratch(name, Elem::F32, &[self.stretches(), 2, self.columns])
    }

    /// A launch of teams of threads, each of which shares a row for a stretch of items.
    pub fn launch(&self, caps: &Caps, entry: &'static str, texts: [&'static str; 3]) -> Stage {
        let width = width(self.columns, self.dtype, caps);
        let pieces = self.columns / width;
        let lanes = pieces.next_power_of_two().min(MOST_LANES);
        let across = pieces.div_ceil(lanes);
        let consts = [
            ("ITEMS", self.items),
            ("COLUMNS", self.columns),
            ("PIECES", pieces),
            ("WIDTH", width),
            ("LANES", lanes),
            ("ACROSS", across),
            ("STRETCH", self.stretch()),
            ("STRETCHES", self.stretches()),
            ("THREADS", THREADS),
        ];
        Stage::kernel(entry, text_for(width, caps, texts), entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([THREADS as u32, 1, 1])
            .grid(spread((self.stretches() * across).div_ceil(THREADS / lanes)))
    }

    /// The stage that joins what stretches left in parts: a workgroup for each of them.
    pub fn join(&self, caps: &Caps, [sorted, parts, result]: [&'static str; 3]) -> Stage {
        let width = width(self.columns, self.dtype, caps);
        let across = (self.columns / width).div_ceil(MOST_LANES);
        let texts = ["embedding/join", "embedding/join1", "embedding/join4"];
        self.launch(caps, "embedding_join", texts)
            .args([("sorted", sorted, Read), ("parts", parts, Read), ("dtable", result, Write)])
            .grid(spread(self.stretches() * across))
            .shared((THREADS * width * 4) as u32)
            .costing(Cost::new(0, 12 * self.stretches(), 0))
            .called("join")
    }

    /// The stages, from sorted keys with their order and gradients to the table's, with a buffer for parts.
    pub fn stages(&self, caps: &Caps, sorted: Sorted, [dout, dtable, parts]: [&'static str; 3]) -> Vec<Stage> {
        let bytes = Elem::Real.storage(self.dtype).bytes();
        let With { bag, scale, winner } = self.with;
        let optional = [("bag", bag), ("scale", scale), ("winner", winner)];
        let optional = optional.into_iter().filter_map(|(name, buffer)| Some((name, buffer?, Read)));
        let always = [
            ("sorted", sorted.sorted, Read),
            ("order", sorted.order, Read),
            ("dout", dout, Read),
            ("dtable", dtable, Write),
            ("parts", parts, Write),
        ];
        let zeros = Stage::fill("zeros", dtable, 0).costing(Cost::new(0, 0, self.rows * self.columns * bytes));
        let made = self.items.min(self.rows) * self.columns * bytes;
        // Of each item its key and its place, and what else is known of it.
        let known = 4 * self.items * (2 + u64::from(bag.is_some()) + u64::from(scale.is_some()));
        let picked = if winner.is_some() { 4 * self.sources * self.columns } else { 0 };
        let read = known + picked + self.sources * self.columns * bytes;
        let texts = ["embedding/segments", "embedding/segments1", "embedding/segments4"];
        let summed = self
            .launch(caps, "embedding_segments", texts)
            .consts(&[("SOURCES", self.sources as u32)])
            .consts(&[("BAGS", bag.is_some()), ("SCALED", scale.is_some()), ("PICKED", winner.is_some())])
            .args(always.into_iter().chain(optional).map(Arg::from))
            .costing(Cost::new(self.items * self.columns, read, made));
        vec![zeros, summed.called("segments"), self.join(caps, [sorted.sorted, parts, dtable])]
    }
}

/// Where a sort of so many indices leaves them.
pub(in crate::suite) const SORTED: Sorted = Sorted {
    keys: "index",
    sorted: "sorted",
    order: "order",
    between: ["half_sorted", "half_order"],
    counts: "digits",
};

/// The sort of so many indices of rows below `rows`.
pub(in crate::suite) fn by_row(items: u64, rows: u64) -> Sort {
    Sort { items, below: rows }
}

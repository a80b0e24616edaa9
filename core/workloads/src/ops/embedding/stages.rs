//! Stages of gathers from tables and of their gradients, for this workload and those that are built on it.
//!
//! Each item uses one row. Item `i` has index `i`, and its table is `i` modulo `tables`. One table is the plain case.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, Elem, Stage, Tunable, by_pieces, spread, width};
use parallax_schema::case::{Allowed, Cost, DType};
use parallax_schema::device::{Caps, Dialect};

use crate::{Sort, Sorted};

/// Items of a launch, and their tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Number of items of a launch: the one at `first`, and every `step`-th from there on.
    pub items: u64,
    pub first: u64,
    pub step: u64,
    /// Number of tables, stored consecutively: item `i` uses the table `i` modulo this.
    pub tables: u64,
    /// Rows of each table.
    pub rows: u64,
    /// Elements of a row.
    pub columns: u64,
    pub dtype: DType,
}

/// Pieces that a thread moves at once.
pub(crate) const AT_ONCE: Tunable = Tunable {
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

    /// Gather stage in pieces of 16 bytes, if possible, with several pieces per thread. Buffers are the indices, the tables and the
    /// result. `different` rows are read from memory, and repeated ones from a cache.
    pub fn gather(&self, caps: &Caps, at_once: u32, different: u64, [index, table, out]: [&'static str; 3]) -> Stage {
        // There is no arithmetic, so WGSL may copy any 16 bytes as four words.
        let whole = caps.dialect == Dialect::Wgsl && (self.columns * self.bytes()).is_multiple_of(16);
        let width = match (whole, caps.dialect) {
            (true, _) => 16 / self.bytes(),
            (false, Dialect::Wgsl) => 1,
            _ => width(self.columns, self.dtype, caps),
        };
        let pieces = self.columns / width;
        let count = self.items * pieces;
        let made = self.items * self.columns * self.bytes();
        let text = "embedding/rows";
        let stage = by_pieces(count, width, text, "embedding_rows")
            .consts(&[("PIECES", pieces as u32), ("AT_ONCE", at_once)])
            .args([("index", index, Read), ("table", table, Read), ("out", out, Write)])
            .cost(Cost::new(0, 4 * self.items + different * self.columns * self.bytes(), made));
        let threads = u64::from(stage.kernel_launch().expect("a kernel").workgroup[0]);
        self.at_items(stage).grid(spread(count.div_ceil(threads * u64::from(at_once))))
    }

    /// Stage that adds gradients to zeroed sums at the used rows. WGSL has no floating-point atomics, and adds element by element.
    pub fn scatter(&self, caps: &Caps, [index, dout, sums]: [&'static str; 3]) -> Stage {
        let width = if caps.dialect == Dialect::Wgsl { 1 } else { width(self.columns, self.dtype, caps) };
        let pieces = self.columns / width;
        let elements = self.items * self.columns;
        let met = elements.min(self.tables * self.rows * self.columns) * 4;
        let text = "embedding/scatter";
        let stage = by_pieces(self.items * pieces, width, text, "embedding_scatter")
            .consts(&[("PIECES", pieces as u32)])
            .args([("index", index, Read), ("dout", dout, Read), ("sums", sums, Write)])
            .cost(Cost::new(elements, 4 * self.items + elements * self.bytes() + met, met));
        self.at_items(stage)
    }
}

/// Stages that zero the sums, add to them by `adding`, and convert them to the element type unless they are the result. `sums` is
/// f32 and replaces the result of `elements` elements, if that has another type.
pub(crate) fn added_to_zeros(
    elements: u64,
    dtype: DType,
    caps: &Caps,
    [sums, result]: [&'static str; 2],
    adding: impl FnOnce(&'static str) -> Vec<Stage>,
) -> Vec<Stage> {
    let in_place = dtype == DType::F32;
    let to = if in_place { result } else { sums };
    let mut all = vec![Stage::fill("zeros", to, 0).cost(Cost::new(0, 0, 4 * elements))];
    all.extend(adding(to));
    if !in_place {
        let bytes = Elem::Real.storage(dtype).bytes();
        let width = width(elements, dtype, caps);
        let text = "embedding/narrow";
        let stage = by_pieces(elements / width, width, text, "embedding_narrow")
            .args([("sums", sums, Read), ("result", result, Write)])
            .cost(Cost::new(0, 4 * elements, bytes * elements));
        all.push(stage.label("narrow"));
    }
    all
}

/// Segmented sums over items of the same row, which a sort has made adjacent. The threads of a row traverse a stretch of sorted
/// items. A row that begins and ends in a stretch is written to the result. A row that continues in the next stretch leaves two
/// parts, for its end and its beginning. A separate stage joins them. There are no atomics, so the result is the same in every run.
/// Unused rows are zeroed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segments {
    /// Sorted items.
    pub items: u64,
    /// Rows of gradients of their terms: as many as items, or fewer if several items share one.
    pub sources: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Elements of a row.
    pub columns: u64,
    pub dtype: DType,
    /// Additional data of an item.
    pub with: With,
}

/// Data of an item's term besides the row of gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct With {
    /// Row of gradients of each item, none if it is not below `sources`. Without it, the row of the item's own number.
    pub bag: Option<&'static str>,
    /// Factor for each item, in f32.
    pub scale: Option<&'static str>,
    /// The one item that receives each element of the gradients.
    pub winner: Option<&'static str>,
}

/// Fewest items of a stretch, and most stretches: enough to fill any device, and few enough for a short join.
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

    /// Buffer of the two parts of each stretch.
    pub fn scratch(&self, name: &'static str) -> BufferSpec {
        BufferSpec::scratch(name, Elem::F32, &[self.stretches(), 2, self.columns])
    }

    /// Launch of thread teams, each of which shares a row for a stretch of items.
    pub fn launch(&self, caps: &Caps, entry: &'static str, text: &'static str) -> Stage {
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
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([THREADS as u32, 1, 1])
            .grid(spread((self.stretches() * across).div_ceil(THREADS / lanes)))
    }

    /// Stage that joins the parts of stretches: one workgroup per stretch.
    pub fn join(&self, caps: &Caps, [sorted, parts, result]: [&'static str; 3]) -> Stage {
        let width = width(self.columns, self.dtype, caps);
        let across = (self.columns / width).div_ceil(MOST_LANES);
        let text = "embedding/join";
        self.launch(caps, "embedding_join", text)
            .args([("sorted", sorted, Read), ("parts", parts, Read), ("dtable", result, Write)])
            .grid(spread(self.stretches() * across))
            .shared((THREADS * width * 4) as u32)
            .cost(Cost::new(0, 12 * self.stretches(), 0))
            .label("join")
    }

    /// Stages from sorted keys, with their order and gradients, to the table's gradient, with a buffer for parts.
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
        let zeros = Stage::fill("zeros", dtable, 0).cost(Cost::new(0, 0, self.rows * self.columns * bytes));
        let made = self.items.min(self.rows) * self.columns * bytes;
        // Key and position of each item, and its additional data.
        let known = 4 * self.items * (2 + u64::from(bag.is_some()) + u64::from(scale.is_some()));
        let picked = if winner.is_some() { 4 * self.sources * self.columns } else { 0 };
        let read = known + picked + self.sources * self.columns * bytes;
        let text = "embedding/segments";
        let summed = self
            .launch(caps, "embedding_segments", text)
            .consts(&[("SOURCES", self.sources as u32)])
            .consts(&[("BAGS", bag.is_some()), ("SCALED", scale.is_some()), ("PICKED", winner.is_some())])
            .args(always.into_iter().chain(optional).map(Arg::from))
            .cost(Cost::new(self.items * self.columns, read, made));
        vec![zeros, summed.label("segments"), self.join(caps, [sorted.sorted, parts, dtable])]
    }
}

/// Buffers of a sort of indices.
pub(crate) const SORTED: Sorted = Sorted {
    keys: "index",
    sorted: "sorted",
    order: "order",
    between: ["half_sorted", "half_order"],
    counts: "digits",
};

/// Sort of `items` indices of rows below `rows`.
pub(crate) fn by_row(items: u64, rows: u64) -> Sort {
    Sort { items, below: rows }
}

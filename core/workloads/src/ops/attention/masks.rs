//! Visibility of keys and additions to scores: the causal mask, its window, the number of keys of each batch item, packed sequences,
//! and an input mask.

use std::ops::Range;

use parallax_ir::Access::Read;
use parallax_ir::{Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, Precondition, Problem, Shape, Stage, indexable};
use parallax_schema::units::gcd;

use super::{normal, scores};

/// Words of the masks in a shape, after the extents.
pub(super) const AXES: [Axis; 3] = [
    Axis::word("mask", "keys that a query sees", &["", "causal"]),
    Axis::word("padding", "whether each batch item has its own number of keys", &["", "padded"]),
    Axis::word("bias", "whether a mask is added to the scores", &["", "biased"]),
];

/// Number of keys that a query sees up to the causal mask, or zero for all of them.
pub(super) const WINDOW: Axis = Axis::optional("w", "keys of a window up to the causal mask, 0 for all", 0, 0);

/// Number of sequences that share the tokens, or zero for none.
pub(super) const SEQUENCES: Axis = Axis::optional("n", "sequences packed one after the other, 0 for none", 0, 0);

/// Checks that kernels can index the mask, that a window has an end, and that packed sequences are of the same tokens.
pub(super) fn validate(shape: &Shape) -> Result<(), String> {
    if packed(shape) && (shape["s"] != shape["t"] || shape["b"] != 1 || shape.has("padded")) {
        return Err("packed sequences are of one batch item without padding, and have a key for each query".to_owned());
    }
    if shape["w"] > 0 && !shape.has("causal") {
        return Err("a window of keys ends at the causal mask: add `causal`".to_owned());
    }
    if shape.has("biased") { indexable(shape["s"] * shape["t"]) } else { Ok(()) }
}

/// Returns the length of sequence `i` of `b`. Lengths are spread evenly over `1..=t` and independent of the seed, so that costs are
/// known.
pub fn ragged(i: u64, b: u64, t: u64) -> u64 {
    // Starts at the longest. Steps are about three eighths of `b`, so that neighbours differ.
    let step = (3 * b / 8).max(1);
    let step = (step..).find(|step| gcd(*step, b) == 1).expect("b + 1 at the latest");
    let rank = (u128::from(i) * u128::from(step) % u128::from(b)) as u64;
    t - (u128::from(rank) * u128::from(t) / u128::from(b)) as u64
}

/// Whether sequences are packed.
fn packed(shape: &Shape) -> bool {
    shape["n"] > 0
}

/// Whether the shape has lengths, or bounds in their place.
pub(super) fn listed(shape: &Shape) -> bool {
    shape.has("padded") || packed(shape)
}

/// Bound `i` of `n + 1` bounds of sequences within `s` tokens. Lengths are about the odd numbers up to `2n` in a mixed order, scaled.
/// Many sequences of few tokens have empty ones among them.
pub(super) fn bound(shape: &Shape, i: u64) -> u64 {
    let (n, s) = (shape["n"], shape["s"]);
    // A length of `ragged` is between one and `n` where as many keys as items exist.
    let before: u64 = (0..i).map(|sequence| 2 * ragged(sequence, n, n) - 1).sum();
    (u128::from(before) * u128::from(s) / (u128::from(n) * u128::from(n))) as u64
}

/// Number of keys of batch item `i`.
pub(super) fn length(shape: &Shape, i: u64) -> u64 {
    if shape.has("padded") { ragged(i, shape["b"], shape["t"]) } else { shape["t"] }
}

/// Number of keys of all batch items, without those before all windows.
pub(super) fn keys(p: &Problem) -> u64 {
    if packed(&p.shape) {
        return p["t"];
    }
    (0..p["b"]).map(|i| length(&p.shape, i).saturating_sub(window_start(p, 0))).sum()
}

/// Number of pairs of a query and a key that it sees, in one head of each batch item.
pub(super) fn pairs(p: &Problem) -> u64 {
    if packed(&p.shape) {
        return (0..p["n"]).map(|i| within(p, bound(&p.shape, i + 1) - bound(&p.shape, i))).sum();
    }
    let of_length =
        |length| (0..p["s"]).map(|i| visible(p, i).min(length).saturating_sub(window_start(p, i))).sum::<u64>();
    if p.shape.has("padded") {
        (0..p["b"]).map(|i| of_length(length(&p.shape, i))).sum()
    } else {
        p["b"] * of_length(p["t"])
    }
}

/// Number of pairs in a sequence of `length` tokens.
fn within(p: &Problem, length: u64) -> u64 {
    let widest = if p["w"] == 0 { length } else { p["w"].min(length) };
    match p.shape.has("causal") {
        // The first queries see as many keys as they are.
        true => widest * (widest + 1) / 2 + (length - widest) * widest,
        false => length * length,
    }
}

/// Whether operations are counted by pairs.
pub(super) fn counts_pairs(p: &Problem) -> bool {
    p["w"] > 0 || packed(&p.shape)
}

/// Number of keys of the batch item that has the fewest.
pub(super) fn fewest_keys(p: &Problem) -> u64 {
    (0..p["b"]).map(|i| length(&p.shape, i)).min().expect("at least one")
}

/// Optional inputs of the shape, which follow the others.
pub(super) fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let lengths = || BufferSpec::input("lengths", Elem::U32, &[p["b"]], |s: &Shape, d: Draw| length(s, d.index) as f64);
    let bounds =
        || BufferSpec::input("bounds", Elem::U32, &[p["n"] + 1], |s: &Shape, d: Draw| bound(s, d.index) as f64);
    let mask = || BufferSpec::input("mask", Elem::Real, &[p["s"], p["t"]], normal);
    let listed = p.shape.has("padded").then(lengths).or_else(|| packed(&p.shape).then(bounds));
    let all = [listed, p.shape.has("biased").then(mask), scores::buffer(p)];
    all.into_iter().flatten().collect()
}

/// Preconditions that no length and no bound exceeds the number of keys, and that bounds ascend.
pub(super) fn preconditions() -> Vec<Precondition> {
    vec![
        Precondition::Below { buffer: "lengths", bound: |p| p["t"] + 1 },
        Precondition::Below { buffer: "bounds", bound: |p| p["t"] + 1 },
        Precondition::Ascending { buffer: "bounds", when: |p| packed(&p.shape) },
    ]
}

/// Name of the buffer in the place of the lengths.
fn listing(p: &Problem) -> &'static str {
    if packed(&p.shape) { "bounds" } else { "lengths" }
}

/// Bytes of the lengths or bounds, and of the mask.
fn bytes(p: &Problem) -> [u64; 2] {
    let of = |name| buffers(p).iter().filter(|b| b.name == name).map(|b| b.bytes(p.dtype).0).sum();
    [of(listing(p)), of("mask")]
}

/// Bytes of all optional inputs.
pub(super) fn all_bytes(p: &Problem) -> u64 {
    buffers(p).iter().map(|b| b.bytes(p.dtype).0).sum()
}

/// Number of keys that query `i` of any head sees, without lengths.
pub(super) fn visible(p: &Problem, i: u64) -> u64 {
    let (s, t) = (p["s"], p["t"]);
    if p.shape.has("causal") { (i + 1 + t).saturating_sub(s).min(t) } else { t }
}

/// First key in the window of query `i` of any head.
pub(super) fn window_start(p: &Problem, i: u64) -> u64 {
    match p["w"] {
        0 => 0,
        w => (i + 1 + p["t"]).saturating_sub(p["s"] + w),
    }
}

/// Checks that the problem has no packed sequences.
///
/// # Errors
/// Reason of `variant` against them.
pub(super) fn without_packed(p: &Problem, variant: &str) -> Result<(), String> {
    if packed(&p.shape) { Err(format!("{variant} has no packed sequences")) } else { Ok(()) }
}

/// Checks that the first key of every query is the first of all: neither a window nor packed sequences.
///
/// # Errors
/// Reason of `variant` against one.
pub(super) fn without_starts(p: &Problem, variant: &str) -> Result<(), String> {
    match p["w"] {
        0 => without_packed(p, variant),
        _ => Err(format!("{variant} has no window of keys")),
    }
}

/// Positions of the optional inputs among the buffers of a direction.
#[derive(Clone, Copy)]
pub(super) struct Masks<'a> {
    p: &'a Problem,
    lengths: Option<usize>,
    mask: Option<usize>,
}

impl Masks<'_> {
    /// Positions after the first `first` inputs, which every shape has.
    pub(super) fn behind(p: &Problem, first: usize) -> Masks<'_> {
        let lengths = listed(&p.shape).then_some(first);
        let mask = p.shape.has("biased").then_some(first + usize::from(lengths.is_some()));
        Masks { p, lengths, mask }
    }

    /// Problem of the masks.
    pub(super) fn problem(&self) -> &Problem {
        self.p
    }

    /// Keys that a query sees; `row` counts through all heads.
    pub(super) fn seen(self, inputs: &Inputs, row: u64) -> Range<u64> {
        self.seen_of_length(row, |lengths, item| inputs.at(lengths, item) as u64)
    }

    /// Keys that a query sees, with the elements of the lengths, or of the bounds in their place.
    fn seen_of_length(self, row: u64, length: impl Fn(usize, u64) -> u64) -> Range<u64> {
        let (item, query) = (row / self.p["s"] / self.p["h"], row % self.p["s"]);
        if let (true, Some(bounds)) = (packed(&self.p.shape), self.lengths) {
            let bound = |i| length(bounds, i);
            let own = (0..self.p["n"]).find(|i| (bound(*i)..bound(i + 1)).contains(&query));
            let (start, end) = own.map_or((0, 0), |i| (bound(i), bound(i + 1)));
            let end = visible(self.p, query).min(end);
            return window_start(self.p, query).max(start).min(end)..end;
        }
        let end = visible(self.p, query).min(self.lengths.map_or(self.p["t"], |lengths| length(lengths, item)));
        window_start(self.p, query).min(end)..end
    }

    /// Mask value that is added to the query's score with key `j`.
    pub(super) fn added(self, inputs: &Inputs, row: u64, j: u64) -> f64 {
        self.mask.map_or(0.0, |mask| inputs.at(mask, row % self.p["s"] * self.p["t"] + j))
    }

    /// Keys that a query sees, from the buffers of the host implementation.
    pub(super) fn seen_by_host(self, inputs: &[HostBuffer], row: usize) -> Range<usize> {
        let seen = self.seen_of_length(row as u64, |lengths, item| u64::from(inputs[lengths].u32()[item as usize]));
        seen.start as usize..seen.end as usize
    }

    /// Mask row that is added to all scores of a query.
    pub(super) fn row_on_host(self, inputs: &[HostBuffer], row: usize) -> Option<&[f32]> {
        let (s, t) = (self.p["s"] as usize, self.p["t"] as usize);
        self.mask.map(|mask| &inputs[mask].f32()[row % s * t..][..t])
    }
}

/// Optional inputs that a stage reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// Lengths.
    Lengths,
    /// Mask.
    Mask,
    /// Lengths and mask.
    Both,
}

/// Adds the optional inputs to a stage: constants, arguments and bytes read. Its kernel source imports `attention/common`; its
/// other arguments and its cost are complete.
pub(super) fn looking(p: &Problem, looks: Looks, mut stage: Stage) -> Stage {
    let listed = listed(&p.shape) && matches!(looks, Looks::Lengths | Looks::Both);
    let sequences = if listed { p["n"] as u32 } else { 0 };
    let biased = p.shape.has("biased") && matches!(looks, Looks::Mask | Looks::Both);
    stage = stage.consts(&[("OWN_LENGTHS", listed), ("BIASED", biased), ("SEQUENCED", sequences > 0)]);
    stage = stage.consts(&[("ITEM_HEADS", p["h"] as u32), ("SEQUENCES", sequences)]);
    let [of_lengths, of_mask] = bytes(p);
    for (given, [parameter, name], position, bytes) in
        [(listed, ["lengths", listing(p)], "LENGTHS_AT", of_lengths), (biased, ["mask", "mask"], "MASK_AT", of_mask)]
    {
        if given {
            let at = stage.args.len() as u32;
            stage = stage.consts(&[(position, at)]);
            stage.args.push((parameter, name, Read).into());
            stage.cost.read.0 += bytes;
        }
    }
    stage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("attention/fwd/{shape}/f32/manual")).expect("valid").problem
    }

    #[test]
    fn lengths_are_spread_evenly_and_each_item_has_a_key() {
        let mut lengths: Vec<u64> = (0..5).map(|i| ragged(i, 5, 100)).collect();
        assert_eq!(lengths[0], 100, "the first is the longest");
        lengths.sort_unstable();
        assert_eq!(lengths, [20, 40, 60, 80, 100]);
        assert!((0..64).all(|i| (1..=3).contains(&ragged(i, 64, 3))));
    }

    #[test]
    fn a_query_sees_what_the_causal_mask_and_the_length_leave() {
        let p = problem("b2,h3,s4,t8,d1,causal,padded");
        let inputs = p.inputs(1);
        let masks = Masks::behind(&p, 3);
        let seen: Vec<u64> = (0..24).map(|row| masks.seen(&inputs, row).end).collect();
        assert_eq!(seen, [[5, 6, 7, 8].repeat(3), [4; 12].to_vec()].concat());
        assert_eq!((keys(&p), fewest_keys(&p)), (12, 4));
        let plain = problem("b2,h3,s4,t8,d1");
        assert_eq!((keys(&plain), all_bytes(&plain), buffers(&plain).len()), (16, 0, 0));
    }

    #[test]
    fn a_window_has_the_last_keys_that_a_query_sees() {
        let p = problem("b2,h1,s4,t8,d1,w3,causal,padded");
        let inputs = p.inputs(1);
        let seen: Vec<Range<u64>> = (0..8).map(|row| Masks::behind(&p, 3).seen(&inputs, row)).collect();
        // The second item has four keys.
        assert_eq!(seen, [2..5, 3..6, 4..7, 5..8, 2..4, 3..4, 4..4, 4..4]);
        assert_eq!((pairs(&p), keys(&p)), (12 + 3, 6 + 2));
        let early = problem("b3,h1,s4,d1,w2,causal");
        assert_eq!((pairs(&early), keys(&early), window_start(&early, 0)), (3 * 7, 12, 0));
        let case = parse_case("attention/fwd/b1,h1,s4,d1,w2/f32/manual");
        assert!(case.is_err_and(|refused| refused.to_string().contains("causal")));
    }

    #[test]
    fn a_query_sees_keys_of_its_own_sequence_alone() {
        let p = problem("b1,h2,s9,d1,n3");
        let bounds: Vec<u64> = (0..=3).map(|i| bound(&p.shape, i)).collect();
        assert_eq!(bounds, [0, 5, 8, 9], "lengths of 5, 3 and 1");
        let inputs = p.inputs(1);
        let seen = |p: &Problem| (0..9).map(|row| Masks::behind(p, 3).seen(&inputs, row)).collect::<Vec<_>>();
        assert_eq!(seen(&p), [vec![0..5; 5], vec![5..8; 3], vec![8..9; 1]].concat());
        let causal = problem("b1,h2,s9,d1,w2,n3,causal");
        assert_eq!(seen(&causal), [0..1, 0..2, 1..3, 2..4, 3..5, 5..6, 5..7, 6..8, 8..9]);
        for p in [&p, &causal] {
            let counted: u64 = seen(p).iter().map(|keys| keys.end - keys.start).sum();
            assert_eq!((pairs(p), keys(p)), (counted, 9), "{}", p.shape);
        }
        // More sequences than tokens: some are empty.
        let many = problem("b1,h1,s5,d1,n9");
        let bounds: Vec<u64> = (0..=9).map(|i| bound(&many.shape, i)).collect();
        assert!(bounds.is_sorted() && bounds[9] == 5, "{bounds:?}");
        for refused in ["b2,h1,s9,d1,n3", "b1,h1,s9,t8,d1,n3", "b1,h1,s9,d1,n3,padded"] {
            assert!(parse_case(&format!("attention/fwd/{refused}/f32/manual")).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_stage_is_given_only_what_its_shape_has_and_it_looks_at() {
        let stage = || Stage::kernel("x", "attention/flash", "x").args([("q", Read)]);
        let args = |shape: &str, looks| {
            let stage = looking(&problem(shape), looks, stage());
            (stage.args.iter().map(|arg| arg.buffer).collect::<Vec<_>>(), stage.cost.read.0)
        };
        assert_eq!(args("b3,h1,s5,d1", Looks::Both), (vec!["q"], 0));
        assert_eq!(args("b3,h1,s5,d1,padded,biased", Looks::Both), (vec!["q", "lengths", "mask"], 12 + 100));
        assert_eq!(args("b3,h1,s5,d1,padded,biased", Looks::Mask), (vec!["q", "mask"], 100));
        assert_eq!(args("b3,h1,s5,d1,padded", Looks::Mask), (vec!["q"], 0));
    }
}

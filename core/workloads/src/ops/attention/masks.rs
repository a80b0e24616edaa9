//! Visibility of keys and additions to scores: the causal mask, the number of keys of each batch item, and an input mask.

use parallax_ir::Access::Read;
use parallax_ir::{Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, Precondition, Problem, Shape, Stage, indexable};
use parallax_schema::units::gcd;

use super::normal;

/// Words of the masks in a shape, after the extents.
pub(super) const AXES: [Axis; 3] = [
    Axis::word("mask", "keys that a query sees", &["", "causal"]),
    Axis::word("padding", "whether each batch item has its own number of keys", &["", "padded"]),
    Axis::word("bias", "whether a mask is added to the scores", &["", "biased"]),
];

/// Checks that kernels can index the mask.
pub(super) fn validate(shape: &Shape) -> Result<(), String> {
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

/// Number of keys of batch item `i`.
pub(super) fn length(shape: &Shape, i: u64) -> u64 {
    if shape.has("padded") { ragged(i, shape["b"], shape["t"]) } else { shape["t"] }
}

/// Number of keys of all batch items.
pub(super) fn keys(p: &Problem) -> u64 {
    (0..p["b"]).map(|i| length(&p.shape, i)).sum()
}

/// Number of keys of the batch item that has the fewest.
pub(super) fn fewest_keys(p: &Problem) -> u64 {
    (0..p["b"]).map(|i| length(&p.shape, i)).min().expect("at least one")
}

/// Optional inputs of the shape, which follow the others.
pub(super) fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let lengths = || BufferSpec::input("lengths", Elem::U32, &[p["b"]], |s: &Shape, d: Draw| length(s, d.index) as f64);
    let mask = || BufferSpec::input("mask", Elem::Real, &[p["s"], p["t"]], normal);
    let both = [p.shape.has("padded").then(lengths), p.shape.has("biased").then(mask)];
    both.into_iter().flatten().collect()
}

/// Precondition that no length exceeds the number of keys.
pub(super) fn precondition() -> Precondition {
    Precondition::Below { buffer: "lengths", bound: |p| p["t"] + 1 }
}

/// Bytes of the lengths, and of the mask.
fn bytes(p: &Problem) -> [u64; 2] {
    let of = |name| buffers(p).iter().filter(|b| b.name == name).map(|b| b.bytes(p.dtype).0).sum();
    [of("lengths"), of("mask")]
}

/// Bytes of both.
pub(super) fn all_bytes(p: &Problem) -> u64 {
    bytes(p).iter().sum()
}

/// Number of keys that query `i` of any head sees, without lengths.
pub(super) fn visible(p: &Problem, i: u64) -> u64 {
    let (s, t) = (p["s"], p["t"]);
    if p.shape.has("causal") { (i + 1 + t).saturating_sub(s).min(t) } else { t }
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
        let lengths = p.shape.has("padded").then_some(first);
        let mask = p.shape.has("biased").then_some(first + usize::from(lengths.is_some()));
        Masks { p, lengths, mask }
    }

    /// Number of keys that a query sees; `row` counts through all heads.
    pub(super) fn seen(self, inputs: &Inputs, row: u64) -> u64 {
        let item = row / self.p["s"] / self.p["h"];
        let length = self.lengths.map_or(self.p["t"], |lengths| inputs.at(lengths, item) as u64);
        visible(self.p, row % self.p["s"]).min(length)
    }

    /// Mask value that is added to the query's score with key `j`.
    pub(super) fn added(self, inputs: &Inputs, row: u64, j: u64) -> f64 {
        self.mask.map_or(0.0, |mask| inputs.at(mask, row % self.p["s"] * self.p["t"] + j))
    }

    /// Number of keys that a query sees, from the buffers of the host implementation.
    pub(super) fn seen_by_host(self, inputs: &[HostBuffer], row: usize) -> usize {
        let item = row / (self.p["s"] * self.p["h"]) as usize;
        let length = self.lengths.map_or(self.p["t"], |lengths| u64::from(inputs[lengths].u32()[item]));
        visible(self.p, row as u64 % self.p["s"]).min(length) as usize
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
    let padded = p.shape.has("padded") && matches!(looks, Looks::Lengths | Looks::Both);
    let biased = p.shape.has("biased") && matches!(looks, Looks::Mask | Looks::Both);
    stage = stage.consts(&[("OWN_LENGTHS", padded), ("BIASED", biased)]).consts(&[("ITEM_HEADS", p["h"] as u32)]);
    let [of_lengths, of_mask] = bytes(p);
    for (given, name, position, bytes) in
        [(padded, "lengths", "LENGTHS_AT", of_lengths), (biased, "mask", "MASK_AT", of_mask)]
    {
        if given {
            let at = stage.args.len() as u32;
            stage = stage.consts(&[(position, at)]);
            stage.args.push((name, Read).into());
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
        let seen: Vec<u64> = (0..24).map(|row| masks.seen(&inputs, row)).collect();
        assert_eq!(seen, [[5, 6, 7, 8].repeat(3), [4; 12].to_vec()].concat());
        assert_eq!((keys(&p), fewest_keys(&p)), (12, 4));
        let plain = problem("b2,h3,s4,t8,d1");
        assert_eq!((keys(&plain), all_bytes(&plain), buffers(&plain).len()), (16, 0, 0));
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

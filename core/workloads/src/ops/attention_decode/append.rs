//! New token of each sequence as an input: its position in the caches, and the stage that appends it.

use std::collections::HashMap;

use parallax_ir::Access::{Read, Write};
use parallax_ir::{BufferSpec, Elem, HostBuffer, Inputs, Problem, Stage, spread};
use parallax_schema::case::Cost;

use super::{K, LENGTHS, NEW_K, NEW_V, TABLE, V, element, normal, pages_of_one, stage};

/// Whether the shape has `append`.
pub fn asked(p: &Problem) -> bool {
    p.shape.has("append")
}

/// Keys and values of the new tokens.
pub fn inputs(p: &Problem) -> [BufferSpec; 2] {
    ["new_k", "new_v"].map(|name| BufferSpec::input(name, Elem::Real, &[p["b"], p["kv"], p["d"]], normal))
}

/// Bytes of the new keys and values.
pub fn bytes(p: &Problem) -> u64 {
    if asked(p) { 2 * p["b"] * p["kv"] * p["d"] * element(p) } else { 0 }
}

/// Caches after the appending, in f64.
pub struct Appended<'a> {
    p: &'a Problem,
    inputs: &'a Inputs,
    /// Sequences by the position of their new token.
    sequences: HashMap<u64, u64>,
}

impl<'a> Appended<'a> {
    /// Caches after the appending of these inputs.
    pub fn new(p: &'a Problem, inputs: &'a Inputs) -> Appended<'a> {
        let mut all = Appended { p, inputs, sequences: HashMap::new() };
        if asked(p) {
            let last = |i| Some((all.place(i, (inputs.at(LENGTHS, i) as u64).checked_sub(1)?), i));
            all.sequences = (0..p["b"]).filter_map(last).collect();
        }
        all
    }

    /// Position of a token, counted in tokens from the first page.
    pub fn place(&self, sequence: u64, token: u64) -> u64 {
        let (p, size) = (self.p, self.p["p"]);
        let sequence = if token < p["pre"] { 0 } else { sequence };
        let entry = sequence * pages_of_one(&p.shape) + token / size;
        let page = if p.shape.has("contiguous") { entry } else { self.inputs.at(TABLE, entry) as u64 };
        page * size + token % size
    }

    /// Element of a key or a value.
    pub fn at(&self, cache: usize, place: u64, key_head: u64, x: u64) -> f64 {
        let element = |of: u64| (of * self.p["kv"] + key_head) * self.p["d"] + x;
        match self.sequences.get(&place) {
            Some(sequence) => self.inputs.at(if cache == K { NEW_K } else { NEW_V }, element(*sequence)),
            None => self.inputs.at(cache, element(place)),
        }
    }
}

/// Writes both caches after the appending; `place` returns the position of a sequence's token.
pub fn host(p: &Problem, inputs: &[HostBuffer], caches: &mut [Vec<f32>], place: impl Fn(usize, usize) -> usize) {
    let token = (p["kv"] * p["d"]) as usize;
    for (cache, (before, new)) in caches.iter_mut().zip([(K, NEW_K), (V, NEW_V)]) {
        cache.copy_from_slice(inputs[before].f32());
        for (i, (new, length)) in inputs[new].f32().chunks(token).zip(inputs[LENGTHS].u32()).enumerate() {
            let Some(last) = length.checked_sub(1) else { continue };
            cache[place(i, last as usize) * token..][..token].copy_from_slice(new);
        }
    }
}

/// Separate appending stage, with one thread per element.
pub fn apart(p: &Problem) -> Stage {
    const THREADS: u32 = 128;
    let looked_up = 4 * p["b"] * if p.shape.has("contiguous") { 1 } else { 2 };
    stage(p, "attention_decode/append", "attention_decode_append")
        .consts(&[("APPENDS", true)])
        .consts(&[("THREADS", THREADS)])
        .args([("k", Write), ("v", Write), ("new_k", Read), ("new_v", Read), ("table", Read), ("lengths", Read)])
        .threads([THREADS, 1, 1])
        .grid(spread((p["b"] * p["kv"] * p["d"]).div_ceil(u64::from(THREADS))))
        .cost(Cost::new(0, bytes(p) + looked_up, bytes(p)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn only_the_last_place_of_a_sequence_changes() {
        let case = parse_case("attention_decode/fwd/b3,h2,kv1,t5,d3,p2,append/f32/naive").expect("valid");
        let p = &case.problem;
        let mut inputs = p.inputs(1);
        inputs.replace(LENGTHS, [5u32, 0, 3].iter().flat_map(|n| n.to_le_bytes()).collect()).expect("three of them");
        let caches = Appended::new(p, &inputs);
        let changed = [(0, caches.place(0, 4)), (2, caches.place(2, 2))];
        for place in 0..p.buffers()[K].len / p["d"] {
            let new = changed.iter().find(|(_, changed)| *changed == place).map(|(sequence, _)| sequence * p["d"]);
            let want = [K, V].map(|cache| match new {
                Some(first) => inputs.at(if cache == K { NEW_K } else { NEW_V }, first),
                None => inputs.at(cache, place * p["d"]),
            });
            assert_eq!([K, V].map(|cache| caches.at(cache, place, 0, 0)), want, "{place}");
        }
    }
}

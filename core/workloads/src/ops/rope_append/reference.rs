//! Reference in f64: rotated queries, and the cache after the appending.

use std::collections::HashMap;

use parallax_ir::{Inputs, Problem, Rows};

use super::{
    ANGLES, CACHE, Format, LENGTHS, PACKED, QKV, SCALES, TABLE, coded, name, pages, pages_of_one, token_heads, tokens,
};

/// Position of a new token, or `None` for padding.
fn position(p: &Problem, inputs: &Inputs, token: u64) -> Option<u64> {
    let length = inputs.at(LENGTHS, token / p["s"]) as u64;
    (length + token % p["s"]).checked_sub(p["s"])
}

/// Place of a position, counted in tokens from the first page.
fn place(p: &Problem, inputs: &Inputs, sequence: u64, position: u64) -> u64 {
    let page = inputs.at(TABLE, sequence * pages_of_one(&p.shape) + position / p["p"]) as u64;
    page * p["p"] + position % p["p"]
}

/// Elements of a head of a new token.
fn head(p: &Problem, inputs: &Inputs, token: u64, head: u64) -> Vec<f64> {
    let at = (token * token_heads(p) + head) * p["d"];
    inputs.values(QKV, at..at + p["d"])
}

/// Elements of a head after the rotation.
fn rotated(p: &Problem, inputs: &Inputs, token: u64, number: u64, position: u64) -> Vec<f64> {
    let (d, half) = (p["d"], p["d"] as usize / 2);
    let x = head(p, inputs, token, number);
    let angles = inputs.values(ANGLES, position * d..(position + 1) * d);
    let (cosines, sines) = angles.split_at(half);
    let (firsts, seconds) = x.split_at(half);
    let first = (0..half).map(|i| firsts[i] * cosines[i] - seconds[i] * sines[i]);
    let second = (0..half).map(|i| seconds[i] * cosines[i] + firsts[i] * sines[i]);
    first.chain(second).collect()
}

/// Row that is stored for a new token: a key (0) or a value (1).
fn fresh(p: &Problem, inputs: &Inputs, token: u64, value: u64, key_head: u64) -> Vec<f64> {
    let number = p["h"] + value * p["kv"] + key_head;
    match position(p, inputs, token) {
        Some(position) if value == 0 => rotated(p, inputs, token, number, position),
        _ => head(p, inputs, token, number),
    }
}

/// Rows of all checked buffers.
pub fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let of = |token| Some((place(p, inputs, token / p["s"], position(p, inputs, token)?), token));
    let stored: HashMap<u64, u64> = (0..tokens(p)).filter_map(of).collect();
    let places = pages(p) * p["p"];
    Box::new(move |output, row, out| match name(p, output) {
        "q" => {
            let (token, number) = (row / p["h"], row % p["h"]);
            match position(p, inputs, token) {
                Some(position) => out.copy_from_slice(&rotated(p, inputs, token, number, position)),
                None => out.fill(0.0),
            }
        }
        "scales" => {
            let (value, token) = (row / places, stored.get(&(row % places)));
            for (key_head, out) in (0..).zip(out) {
                *out = match token {
                    Some(token) => Format::of(p).scale(&fresh(p, inputs, *token, value, key_head)),
                    None => inputs.at(SCALES, row * p["kv"] + key_head),
                };
            }
        }
        _ => {
            let (value, place, key_head) = (row / p["kv"] / places, row / p["kv"] % places, row % p["kv"]);
            let Some(token) = stored.get(&place) else {
                let length = out.len() as u64;
                return out.copy_from_slice(&inputs.values(CACHE, row * length..(row + 1) * length));
            };
            let elements = fresh(p, inputs, *token, value, key_head);
            if !coded(p) {
                return out.copy_from_slice(&elements);
            }
            debug_assert_eq!(out.len() as u64 * PACKED, p["d"]);
            let format = Format::of(p);
            let scale = format.scale(&elements);
            out.iter_mut().zip(format.words(&elements, scale)).for_each(|(out, word)| *out = word);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn new_tokens_are_stored_at_their_positions_and_nothing_else_changes() {
        let case = parse_case("rope_append/fwd/b2,s2,h2,kv1,t5,d4,p2/f32/naive").expect("valid");
        let p = &case.problem;
        let mut inputs = p.inputs(1);
        inputs.replace(LENGTHS, [5u32, 1].iter().flat_map(|n| n.to_le_bytes()).collect()).expect("two of them");
        let places = [(0, 3, 0), (0, 4, 1), (1, 0, 3)].map(|(i, at, token)| (place(p, &inputs, i, at), token));
        let expected = rows(p, &inputs);
        let mut out = [0.0; 4];
        for row in 0..p.buffers()[CACHE].len / 4 {
            expected(0, row, &mut out);
            let (value, at) = (row / 12, row % 12);
            let want = match places.iter().find(|(place, _)| *place == at) {
                Some((_, token)) => fresh(p, &inputs, *token, value, 0),
                None => inputs.values(CACHE, row * 4..row * 4 + 4),
            };
            assert_eq!(out[..], want[..], "{row}");
        }
        // Token 2 is before the beginning of the second sequence.
        expected(1, 2 * 2, &mut out);
        assert_eq!(out, [0.0; 4]);
    }

    #[test]
    fn a_quarter_of_a_circle_exchanges_the_halves() {
        let case = parse_case("rope_append/fwd/b1,h1,d4/f32/naive").expect("valid");
        let mut inputs = case.problem.inputs(1);
        let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        inputs.replace(QKV, bytes(&[1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.])).expect("three heads");
        inputs.replace(ANGLES, bytes(&[0., 1., 1., 0.])).expect("one position");
        assert_eq!(rotated(&case.problem, &inputs, 0, 0, 0), [-3.0, 2.0, 1.0, 4.0]);
        assert_eq!(fresh(&case.problem, &inputs, 0, 1, 0), [9.0, 10.0, 11.0, 12.0]);
    }
}

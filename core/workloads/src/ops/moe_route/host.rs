//! Reference and host implementation of the routing.

use parallax_ir::parallel::*;
use parallax_ir::{HostBuffer, Inputs, Problem, Rows};

use super::{EXPERTS, LOGITS, OFFSETS, SLOTS, WEIGHTS, items, renormalised};
use crate::vector;

/// Multiply-adds of a row of a result: the logits of a token, also for the sorted list, and of all tokens for the offsets.
pub(super) fn row_cost(p: &Problem, output: usize) -> u64 {
    match output {
        OFFSETS => p["t"] * p["e"],
        _ => 2 * p["e"] * p["k"],
    }
}

/// Whether a logit comes before another in the order of choice.
fn precedes(a: f64, b: f64) -> bool {
    a > b || (a.is_nan() && !b.is_nan())
}

/// Experts of a token in the order of choice.
fn chosen(logits: &[f64], choices: u64) -> Vec<usize> {
    let mut chosen = Vec::new();
    for _ in 0..choices {
        let mut best = None;
        for (expert, logit) in logits.iter().enumerate() {
            if !chosen.contains(&expert) && best.is_none_or(|best: usize| precedes(*logit, logits[best])) {
                best = Some(expert);
            }
        }
        chosen.extend(best);
    }
    chosen
}

/// Reference of all results. The lists by expert are one state of all rows.
pub(super) fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (t, e, k) = (p["t"], p["e"], p["k"]);
    let of_token = move |token: u64| inputs.values(LOGITS, token * e..(token + 1) * e);
    let experts: Vec<Vec<usize>> = (0..t).into_par_iter().map(|token| chosen(&of_token(token), k)).collect();
    // Choices of each expert, in the order of tokens.
    let mut lists: Vec<Vec<u64>> = vec![Vec::new(); e as usize];
    for (item, expert) in (0..).zip(experts.iter().flatten()) {
        lists[*expert].push(item);
    }
    let order = lists.concat();
    let mut slots = vec![0; order.len()];
    for (slot, item) in (0..).zip(&order) {
        slots[*item as usize] = slot;
    }
    Box::new(move |output, row, out| {
        let items = (row * k) as usize..;
        match output {
            WEIGHTS => {
                let logits = of_token(row);
                let chosen: Vec<f64> = experts[row as usize].iter().map(|expert| logits[*expert]).collect();
                let total = |of: &[f64]| of.iter().map(|logit| (logit - chosen[0]).exp()).sum::<f64>();
                let sum = if renormalised(p) { total(&chosen) } else { total(&logits) };
                out.iter_mut().zip(&chosen).for_each(|(out, logit)| *out = (logit - chosen[0]).exp() / sum);
            }
            EXPERTS => out.iter_mut().zip(&experts[row as usize]).for_each(|(out, expert)| *out = *expert as f64),
            OFFSETS => {
                let mut places = 0;
                for (out, list) in out.iter_mut().zip(lists.iter().map(Vec::len).chain([0])) {
                    *out = places as f64;
                    places += list;
                }
            }
            _ => {
                let list: &[u64] = if output == SLOTS { &slots } else { &order };
                out.iter_mut().zip(&list[items]).for_each(|(out, place)| *out = *place as f64);
            }
        }
    })
}

/// Tokens that a thread processes together.
const STRETCH: usize = 1024;

/// Chooses a token's experts, with their weights.
fn choose(logits: &[f32], renormalised: bool, weights: &mut [f32], experts: &mut [f32]) {
    let precedes = |a: f32, b: f32| a > b || (a.is_nan() && !b.is_nan());
    let mut count = 0;
    for (expert, logit) in logits.iter().enumerate() {
        if count == weights.len() && !precedes(*logit, weights[count - 1]) {
            continue;
        }
        count = weights.len().min(count + 1);
        let mut at = count - 1;
        while at > 0 && precedes(*logit, weights[at - 1]) {
            (weights[at], experts[at]) = (weights[at - 1], experts[at - 1]);
            at -= 1;
        }
        (weights[at], experts[at]) = (*logit, f32::from_bits(expert as u32));
    }
    let top = weights[0];
    let of_chosen = vector::weigh(weights, top);
    let sum = if renormalised { of_chosen } else { vector::weigh(&mut logits.to_vec(), top) };
    vector::divide(weights, sum);
}

/// Host implementation: experts by stretches of tokens, and then places from the counts of earlier stretches.
pub(super) fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (e, k) = (p["e"] as usize, p["k"] as usize);
    let [weights, experts, offsets, slots, order] = outputs else { unreachable!("five results") };
    let tokens = inputs[LOGITS].f32().par_chunks(STRETCH * e);
    let chosen = weights.par_chunks_mut(STRETCH * k).zip(experts.par_chunks_mut(STRETCH * k));
    let count = |((weights, experts), logits): ((&mut [f32], &mut [f32]), &[f32])| {
        let rows = weights.chunks_exact_mut(k).zip(experts.chunks_exact_mut(k));
        rows.zip(logits.chunks_exact(e))
            .for_each(|((weights, experts), logits)| choose(logits, renormalised(p), weights, experts));
        let mut counts = vec![0; e];
        experts.iter().for_each(|expert| counts[expert.to_bits() as usize] += 1);
        counts
    };
    let mut places: Vec<Vec<usize>> = chosen.zip(tokens).map(count).collect();
    let mut next = 0;
    for expert in 0..e {
        offsets[expert] = f32::from_bits(next as u32);
        for counts in &mut places {
            let count = counts[expert];
            counts[expert] = next;
            next += count;
        }
    }
    offsets[e] = f32::from_bits(items(p) as u32);
    let stretches = slots.par_chunks_mut(STRETCH * k).zip(experts.par_chunks(STRETCH * k)).zip(places);
    stretches.for_each(|((slots, experts), mut places)| {
        for (slot, expert) in slots.iter_mut().zip(experts) {
            let place = &mut places[expert.to_bits() as usize];
            *slot = f32::from_bits(*place as u32);
            *place += 1;
        }
    });
    slots.iter().enumerate().for_each(|(item, slot)| order[slot.to_bits() as usize] = f32::from_bits(item as u32));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn the_first_of_equal_logits_is_chosen_first_and_nan_before_all() {
        assert_eq!(chosen(&[1.0, 3.0, 3.0, 2.0], 3), [1, 2, 3]);
        assert_eq!(chosen(&[0.0, -0.0, f64::NEG_INFINITY], 3), [0, 1, 2]);
        assert_eq!(chosen(&[5.0, f64::NAN, f64::INFINITY, f64::NAN], 3), [1, 3, 2]);
    }

    #[test]
    fn both_give_the_same_places() {
        let p = parse_case("moe_route/fwd/t2050,e6,k3,softmax/f32/naive").expect("valid").problem;
        let inputs = p.inputs(7);
        let rows = reference(&p, &inputs);
        let mut outputs = [2050 * 3, 2050 * 3, 7, 2050 * 3, 2050 * 3].map(|len| vec![0.0; len]);
        host(&p, &[inputs.host(LOGITS).expect("memory")], &mut outputs);
        for (output, got) in outputs.iter().enumerate() {
            let length = if output == OFFSETS { 7 } else { 3 };
            for (row, got) in (0..).zip(got.chunks_exact(length)) {
                let mut want = vec![0.0; length];
                rows(output, row, &mut want);
                let number = |x: &f32| if output == WEIGHTS { f64::from(*x) } else { f64::from(x.to_bits()) };
                let off = got.iter().zip(&want).map(|(got, want)| (number(got) - want).abs()).fold(0.0, f64::max);
                assert!(off < 1e-6, "{output}, {row}: {got:?} {want:?}");
            }
        }
    }
}

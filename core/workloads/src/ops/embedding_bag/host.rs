//! Plain host implementation of both directions.

use parallax_ir::parallel::*;
use parallax_ir::{HostBuffer, Problem};

use super::super::hash_embedding::by_group;
use super::{INDEX, OFFSETS, TABLE, items, weighted};
use crate::real::maximum;

const DOUT: usize = 3;
const WEIGHT: usize = 4;
/// Index of the winners from the set-up, for bags without weights.
const WINNER: usize = 4;

pub(super) fn forward(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (index, offsets, table, d) = (inputs[INDEX].u32(), inputs[OFFSETS].u32(), inputs[TABLE].f32(), p["d"] as usize);
    // Arrays are in the order of buffers, without the output between these.
    let weight = weighted(p).then(|| inputs[3].f32());
    outputs[0].par_chunks_mut(d).enumerate().for_each(|(g, out)| {
        let (begin, end) = (offsets[g] as usize, offsets[g + 1] as usize);
        let empty = begin == end;
        out.fill(if p.shape.has("max") && !empty { f32::NEG_INFINITY } else { 0.0 });
        for i in begin..end {
            let factor = weight.map_or(1.0, |weight| weight[i]);
            for (out, x) in out.iter_mut().zip(&table[index[i] as usize * d..][..d]) {
                *out = if p.shape.has("max") { maximum(*out, *x) } else { *out + factor * x };
            }
        }
        if p.shape.has("mean") && !empty {
            out.iter_mut().for_each(|out| *out /= (end - begin) as f32);
        }
    });
}

pub(super) fn backward(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (index, offsets, dout, d) = (inputs[INDEX].u32(), inputs[OFFSETS].u32(), inputs[DOUT].f32(), p["d"] as usize);
    let table = inputs[TABLE].f32();
    let mut bags = vec![None; index.len()];
    for (g, ends) in offsets.windows(2).enumerate() {
        bags[ends[0] as usize..ends[1] as usize].fill(Some(g));
    }
    let winners = p.shape.has("max").then(|| inputs[WINNER].u32());
    let share = |item: usize, g: usize| match () {
        () if weighted(p) => inputs[WEIGHT].f32()[item],
        () if p.shape.has("mean") => 1.0 / (offsets[g + 1] - offsets[g]) as f32,
        () => 1.0,
    };
    // Items by row, so that rows can be summed in parallel.
    let (taken, first) = by_group(p["v"], items(p), |i| u64::from(index[i as usize]));
    outputs[0].par_chunks_mut(d).enumerate().for_each(|(row, out)| {
        out.fill(0.0);
        for item in taken[first[row]..first[row + 1]].iter().map(|item| *item as usize) {
            let Some(g) = bags[item] else { continue };
            let share = share(item, g);
            for (c, out) in out.iter_mut().enumerate() {
                if winners.is_none_or(|winners| winners[g * d + c] as usize == item) {
                    *out += share * dout[g * d + c];
                }
            }
        }
    });
    if weighted(p) {
        outputs[1].par_iter_mut().zip(&bags).zip(index).for_each(|((out, g), row)| {
            let of = |g: usize| table[*row as usize * d..][..d].iter().zip(&dout[g * d..][..d]);
            *out = g.map_or(0.0, |g| of(g).map(|(x, y)| x * y).sum());
        });
    }
}

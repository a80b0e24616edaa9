//! Multi-threaded f32 implementation.

use parallax_ir::parallel::*;
use parallax_ir::{HostBuffer, Problem};

use super::{
    ANGLES, CACHE, Format, LENGTHS, PACKED, QKV, SCALES, TABLE, coded, pages, pages_of_one, token_heads, tokens,
};

/// Rotates a head by the angles of its position.
fn rotate(x: &[f32], angles: &[f32], out: &mut [f32]) {
    let half = x.len() / 2;
    let ((cosines, sines), (firsts, seconds)) = (angles.split_at(half), x.split_at(half));
    let (out_firsts, out_seconds) = out.split_at_mut(half);
    for i in 0..half {
        out_firsts[i] = firsts[i] * cosines[i] - seconds[i] * sines[i];
        out_seconds[i] = seconds[i] * cosines[i] + firsts[i] * sines[i];
    }
}

/// Position of a new token, or `None` for padding.
fn position(p: &Problem, lengths: &[u32], token: usize) -> Option<usize> {
    let s = p["s"] as usize;
    (lengths[token / s] as usize + token % s).checked_sub(s)
}

/// Writes all queries, those of padding as zero.
fn queries(p: &Problem, inputs: &[HostBuffer], q: &mut [f32]) {
    let (d, h, all) = (p["d"] as usize, p["h"] as usize, token_heads(p) as usize);
    let rows = q.par_chunks_mut(h * d).zip(inputs[QKV].f32().par_chunks(all * d)).enumerate();
    rows.for_each(|(token, (out, x))| match position(p, inputs[LENGTHS].u32(), token) {
        Some(position) => {
            let angles = &inputs[ANGLES].f32()[position * d..][..d];
            out.chunks_exact_mut(d).zip(x.chunks_exact(d)).for_each(|(out, x)| rotate(x, angles, out));
        }
        None => out.fill(0.0),
    });
}

/// Rows to store for all new tokens, keys before values of each, and their scales.
fn fresh(p: &Problem, inputs: &[HostBuffer]) -> (Vec<f32>, Vec<f32>) {
    let [d, h, kv] = ["d", "h", "kv"].map(|axis| p[axis] as usize);
    let row = if coded(p) { d / PACKED as usize } else { d };
    let count = 2 * kv * tokens(p) as usize;
    let (mut rows, mut scales) = (vec![0.0; count * row], vec![0.0; count]);
    let stored = rows.par_chunks_mut(2 * kv * row).zip(scales.par_chunks_mut(2 * kv));
    let tokens = stored.zip(inputs[QKV].f32().par_chunks(token_heads(p) as usize * d)).enumerate();
    tokens.for_each(|(token, ((rows, scales), x))| {
        let Some(position) = position(p, inputs[LENGTHS].u32(), token) else { return };
        let angles = &inputs[ANGLES].f32()[position * d..][..d];
        let mut key = vec![0.0; d];
        let heads = rows.chunks_exact_mut(row).zip(scales).zip(x[h * d..].chunks_exact(d)).enumerate();
        for (number, ((row, scale), x)) in heads {
            let elements = if number < kv {
                rotate(x, angles, &mut key);
                &key[..]
            } else {
                x
            };
            match coded(p) {
                true => *scale = Format::of(p).round(elements, row),
                false => row.copy_from_slice(elements),
            }
        }
    });
    (rows, scales)
}

/// Copies the contents before the execution.
fn copy(from: &HostBuffer, to: &mut [f32]) {
    match from {
        HostBuffer::F32(from) => to.copy_from_slice(from),
        HostBuffer::U32(from) => to.iter_mut().zip(from).for_each(|(to, from)| *to = f32::from_bits(*from)),
    }
}

pub fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [s, kv, page] = ["s", "kv", "p"].map(|axis| p[axis] as usize);
    let (q, stored) = outputs.split_last_mut().expect("the last of them is `q`");
    queries(p, inputs, q);
    let (rows, scales) = fresh(p, inputs);
    copy(&inputs[CACHE], &mut stored[0]);
    if coded(p) {
        copy(&inputs[SCALES], &mut stored[1]);
    }
    let (row, places) = (rows.len() / scales.len(), pages(p) as usize * page);
    for (token, (rows, scales)) in rows.chunks_exact(2 * kv * row).zip(scales.chunks_exact(2 * kv)).enumerate() {
        let Some(position) = position(p, inputs[LENGTHS].u32(), token) else { continue };
        let entry = token / s * pages_of_one(&p.shape) as usize + position / page;
        let place = inputs[TABLE].u32()[entry] as usize * page + position % page;
        for value in 0..2 {
            let to = (value * places + place) * kv;
            stored[0][to * row..][..kv * row].copy_from_slice(&rows[value * kv * row..][..kv * row]);
            if coded(p) {
                stored[1][to..][..kv].copy_from_slice(&scales[value * kv..][..kv]);
            }
        }
    }
}

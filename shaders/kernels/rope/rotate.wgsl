// Rotary position embedding, in pieces of the two halves of a head. The definition is in core/workloads/src/ops/rope.rs.
//
// rope_pairs  a thread rotates one piece of one head
// rope_heads  a thread rotates the same piece of HEADS_AT_ONCE heads, and reads its cosines and sines once

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> cosines: array<piece>;
@group(0) @binding(2) var<storage, read> sines: array<piece>;
@group(0) @binding(3) var<storage, read_write> out: array<stored>;

// Rotates piece `i` of a position of a head by the angle with this cosine and sine.
fn rotate(head: u32, position: u32, i: u32, cosine: piece, sine: piece) {
    let at = (head * POSITIONS + position) * 2u * HALF_PIECES + i;
    let first = piece(x[at]);
    let second = piece(x[at + HALF_PIECES]);
    out[at] = stored(first * cosine - second * sine);
    out[at + HALF_PIECES] = stored(second * cosine + first * sine);
}

@compute @workgroup_size(THREADS)
fn rope_pairs(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= COUNT {
        return;
    }
    let i = index % HALF_PIECES;
    let position = index / HALF_PIECES % POSITIONS;
    let angle = position * HALF_PIECES + i;
    let sine = select(sines[angle], -sines[angle], INVERSE);
    rotate(index / (HALF_PIECES * POSITIONS), position, i, cosines[angle], sine);
}

@compute @workgroup_size(THREADS)
fn rope_heads(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= COUNT {
        return;
    }
    let i = index % HALF_PIECES;
    let position = index / HALF_PIECES % POSITIONS;
    let angle = position * HALF_PIECES + i;
    let cosine = cosines[angle];
    let sine = select(sines[angle], -sines[angle], INVERSE);
    let first = index / (HALF_PIECES * POSITIONS) * HEADS_AT_ONCE;
    for (var head = first; head < min(first + HEADS_AT_ONCE, HEADS); head++) {
        rotate(head, position, i, cosine, sine);
    }
}

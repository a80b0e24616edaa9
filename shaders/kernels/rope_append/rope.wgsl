// Rotation of queries, and of keys to a buffer of their own: the first stage of `separate`. The definition is in
// core/workloads/src/ops/rope_append.

#import lib/launch
#import lib/pieces{WIDTH}
#import rope_append/place

@group(0) @binding(0) var<storage, read> qkv: array<stored>;
@group(0) @binding(1) var<storage, read> angles: array<piece>;
@group(0) @binding(2) var<storage, read> lengths: array<u32>;
@group(0) @binding(3) var<storage, read_write> q: array<stored>;
#if CODED
@group(0) @binding(4) var<storage, read_write> rotated: array<piece>;
#else
@group(0) @binding(4) var<storage, read_write> rotated: array<stored>;
#endif

@compute @workgroup_size(THREADS)
fn rope_append_rope(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= COUNT {
        return;
    }
    let i = index % HALF_PIECES;
    let head = index / HALF_PIECES % (HEADS + KEY_HEADS);
    let token = index / (HALF_PIECES * (HEADS + KEY_HEADS));
    let position = position_of(token);
    var first = piece();
    var second = piece();
    if position != PADDING {
        let at = (token * TOKEN_HEADS + head) * 2u * HALF_PIECES + i;
        let angle = position * 2u * HALF_PIECES + i;
        let cosine = angles[angle];
        let sine = angles[angle + HALF_PIECES];
        first = piece(qkv[at]) * cosine - piece(qkv[at + HALF_PIECES]) * sine;
        second = piece(qkv[at + HALF_PIECES]) * cosine + piece(qkv[at]) * sine;
    }
    if head < HEADS {
        let to = (token * HEADS + head) * 2u * HALF_PIECES + i;
        q[to] = stored(first);
        q[to + HALF_PIECES] = stored(second);
        return;
    }
    let to = (token * KEY_HEADS + head - HEADS) * 2u * HALF_PIECES + i;
#if CODED
    rotated[to] = first;
    rotated[to + HALF_PIECES] = second;
#else
    rotated[to] = stored(first);
    rotated[to + HALF_PIECES] = stored(second);
#endif
}

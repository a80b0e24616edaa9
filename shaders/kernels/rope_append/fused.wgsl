// LANES neighbouring threads hold both halves of EACH heads of a token as vectors: rotation, codes, and storage in the cache. The
// definition is in core/workloads/src/ops/rope_append.

#import lib/launch
#import lib/pieces{WIDTH}
#import rope_append/place
#import rope_append/row
#if CODED
#import quantize/codes
#endif

@group(0) @binding(0) var<storage, read> qkv: array<stored>;
@group(0) @binding(1) var<storage, read> angles: array<piece>;
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read> lengths: array<u32>;
#if CODED
@group(0) @binding(4) var<storage, read_write> cache: array<u32>;
#else
@group(0) @binding(4) var<storage, read_write> cache: array<stored>;
#endif
@group(0) @binding(5) var<storage, read_write> q: array<stored>;
#if CODED
@group(0) @binding(6) var<storage, read_write> scales: array<f32>;
#endif

const IN_WORKGROUP: u32 = THREADS / LANES;

#if CODED
// Bits of the largest magnitude of each head.
var<workgroup> largest: array<atomic<u32>, IN_WORKGROUP * EACH>;
#endif

@compute @workgroup_size(THREADS)
fn rope_append_fused(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lane = thread % LANES;
    let slot = thread / LANES;
    let team = flat_group(group, groups) * IN_WORKGROUP + slot;
    let first_head = team % TEAMS * EACH;
    let within = team / TEAMS < TOKENS && lane < HALF_PIECES;
    let token = select(0u, team / TEAMS, within);
    var position = PADDING;
    if within {
        position = position_of(token);
    }
    var cosine = piece();
    var sine = piece();
    if position != PADDING && first_head < HEADS + KEY_HEADS {
        let at = position * 2u * HALF_PIECES + lane;
        cosine = angles[at];
        sine = angles[at + HALF_PIECES];
    }
    var firsts: array<piece, EACH>;
    var seconds: array<piece, EACH>;
#if CODED
    if lane == 0u {
        for (var e = 0u; e < EACH; e++) {
            atomicStore(&largest[slot * EACH + e], 0u);
        }
    }
    workgroupBarrier();
#endif
    for (var e = 0u; e < EACH; e++) {
        let head = first_head + e;
        firsts[e] = piece();
        seconds[e] = piece();
        if position != PADDING && head < TOKEN_HEADS {
            let at = (token * TOKEN_HEADS + head) * 2u * HALF_PIECES + lane;
            let first = piece(qkv[at]);
            let second = piece(qkv[at + HALF_PIECES]);
            if head < HEADS + KEY_HEADS {
                firsts[e] = first * cosine - second * sine;
                seconds[e] = second * cosine + first * sine;
            } else {
                firsts[e] = first;
                seconds[e] = second;
            }
#if CODED
            if head >= HEADS {
                atomicMax(&largest[slot * EACH + e], max(largest_of(firsts[e]), largest_of(seconds[e])));
            }
#endif
        }
    }
#if CODED
    workgroupBarrier();
#endif
    for (var e = 0u; e < EACH; e++) {
        let head = first_head + e;
        if within && head < HEADS {
            let at = (token * HEADS + head) * 2u * HALF_PIECES + lane;
            q[at] = stored(firsts[e]);
            q[at + HALF_PIECES] = stored(seconds[e]);
        } else if position != PADDING && head < TOKEN_HEADS {
            let row = cache_row(token, position, (head - HEADS) / KEY_HEADS, (head - HEADS) % KEY_HEADS);
            let to = row * 2u * HALF_PIECES + lane;
#if CODED
            let top = atomicLoad(&largest[slot * EACH + e]);
            let found = scale_of(top);
            let inverse = inverse_of(top, found);
            cache[to] = word_of(firsts[e], top, inverse);
            cache[to + HALF_PIECES] = word_of(seconds[e], top, inverse);
            if lane == 0u {
                scales[row] = found;
            }
#else
            cache[to] = stored(firsts[e]);
            cache[to + HALF_PIECES] = stored(seconds[e]);
#endif
        }
    }
}

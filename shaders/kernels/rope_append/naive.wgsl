// A head of a new token per thread. The definition is in core/workloads/src/ops/rope_append.

#import lib/launch
#import rope_append/place
#import rope_append/row
#if CODED
#import quantize/codes
#endif

@group(0) @binding(0) var<storage, read> qkv: array<elem>;
@group(0) @binding(1) var<storage, read> angles: array<f32>;
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read> lengths: array<u32>;
#if CODED
@group(0) @binding(4) var<storage, read_write> cache: array<u32>;
#else
@group(0) @binding(4) var<storage, read_write> cache: array<elem>;
#endif
@group(0) @binding(5) var<storage, read_write> q: array<elem>;
#if CODED
@group(0) @binding(6) var<storage, read_write> scales: array<f32>;
#endif

const HALF: u32 = D / 2u;

// Element `i` of a head, rotated unless it is a value's.
fn element(head: u32, position: u32, rotated: bool, i: u32) -> f32 {
    let own = f32(qkv[head * D + i]);
    if !rotated {
        return own;
    }
    let angle = position * D + i % HALF;
    let cosine = angles[angle];
    let sine = angles[angle + HALF];
    if i < HALF {
        return own * cosine - f32(qkv[head * D + i + HALF]) * sine;
    }
    return own * cosine + f32(qkv[head * D + i - HALF]) * sine;
}

@compute @workgroup_size(THREADS)
fn rope_append_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= TOKENS * TOKEN_HEADS {
        return;
    }
    let token = index / TOKEN_HEADS;
    let head = index % TOKEN_HEADS;
    let position = position_of(token);
    if head < HEADS {
        let to = (token * HEADS + head) * D;
        for (var i = 0u; i < D; i++) {
            var x = 0.0;
            if position != PADDING {
                x = element(index, position, true, i);
            }
            q[to + i] = elem(x);
        }
        return;
    }
    if position == PADDING {
        return;
    }
    let kept = head - HEADS;
    let rotated = kept < KEY_HEADS;
    let row = cache_row(token, position, kept / KEY_HEADS, kept % KEY_HEADS);
#if CODED
    var largest = 0u;
    for (var i = 0u; i < D; i++) {
        largest = max(largest, bitcast<u32>(element(index, position, rotated, i)) & 0x7fffffffu);
    }
    let found = scale_of(largest);
    let inverse = inverse_of(largest, found);
    scales[row] = found;
    for (var i = 0u; i < D; i += 4u) {
        let four = vec4<f32>(
            element(index, position, rotated, i),
            element(index, position, rotated, i + 1u),
            element(index, position, rotated, i + 2u),
            element(index, position, rotated, i + 3u),
        );
        cache[row * (D / 4u) + i / 4u] = word_of(four, largest, inverse);
    }
#else
    for (var i = 0u; i < D; i++) {
        cache[row * D + i] = elem(element(index, position, rotated, i));
    }
#endif
}

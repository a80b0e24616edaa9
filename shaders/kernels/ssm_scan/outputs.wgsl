// Results of chunks, from their tokens and the states before them. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_outputs  a workgroup per chunk, head and 64 columns of the head dim; tokens are rows
//
// A product of a weight of zero and NaN is NaN. Later tokens are therefore left out, not weighted by zero.

#import lib/launch
#import lib/pieces{WIDTH}
#import ssm_scan/chunk
#import ssm_scan/quads
#import ssm_scan/tile

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> dt: array<elem>;
@group(0) @binding(2) var<storage, read> c: array<elem>;
@group(0) @binding(3) var<storage, read> heads: array<f32>;
@group(0) @binding(4) var<storage, read> scores: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> states: array<piece>;
@group(0) @binding(6) var<storage, read_write> out: array<stored>;

const ACROSS: u32 = (D + 63u) / 64u;

// Weights of an earlier token for four later ones of the chunk, from `i` on; zero for those before it.
fn weights(i: u32, j: u32) -> vec4<f32> {
    let places = vec4<u32>(i) + vec4<u32>(0u, 1u, 2u, 3u);
    let later = vec4<f32>(exponents[i], exponents[i + 1u], exponents[i + 2u], exponents[i + 3u]);
    let behind = places >= vec4<u32>(j);
    return select(vec4<f32>(), exp(select(vec4<f32>(), later - exponents[j], behind)) * steps[j], behind);
}

// Element n of C of four tokens, times the decay up to each.
fn decayed_c(sequence: u32, first: u32, i: u32, head: u32, n: u32) -> vec4<f32> {
    var four = vec4<f32>();
    for (var e = 0u; e < 4u; e++) {
        if first + i + e < S && n < N {
            let at = ((sequence * S + first + i + e) * GROUPS + head / (HEADS / GROUPS)) * N + n;
            four[e] = f32(c[at]) * exp(exponents[i + e]);
        }
    }
    return four;
}

// Four elements of row n of the state before the chunk.
fn quad_of_state(index: u32, n: u32, d: u32) -> vec4<f32> {
    if n >= N || d >= D {
        return vec4<f32>();
    }
    let at = (index * N + n) * D + d;
#if WIDTH == 4
    return states[at / 4u];
#else
    let last = at - d + D - 1u;
    let four = vec4<f32>(states[at], states[min(at + 1u, last)], states[min(at + 2u, last)], states[min(at + 3u, last)]);
    return select(vec4<f32>(), four, vec4<u32>(d) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(D));
#endif
}

// Adds the product of a token to the sum of a row, unless the token is later.
#block add_earlier(SUM, WEIGHT)
    sums[SUM] = select(sums[SUM], sums[SUM] + WEIGHT * columns, token <= row_of(thread, SUM));
#end

@compute @workgroup_size(THREADS)
fn ssm_scan_outputs(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tile = flat_group(group, groups);
    let index = tile / ACROSS;
    if index >= SEQUENCES * CHUNKS * HEADS {
        return;
    }
    let column = tile % ACROSS * 64u;
    let head = index % HEADS;
    let of_chunk = index / HEADS;
    let sequence = of_chunk / CHUNKS;
    let first = of_chunk % CHUNKS * CHUNK;
    fill_steps(thread, sequence, head, first);
    var sums: array<vec4<f32>, 8>;
    let scored = (of_chunk * GROUPS + head / (HEADS / GROUPS)) * CHUNK;
    for (var depth = 0u; depth < CHUNK; depth += DEPTH) {
        for (var e = thread; e < VECTORS; e += THREADS) {
            let j = depth + e / QUADS;
            let at = e / QUADS * STRIDE + e % QUADS;
            left[at] = scores[(scored + j) * QUADS + e % QUADS] * weights(e % QUADS * 4u, j);
            right[at] = quad_of_x(sequence, first + j, head, column + e % QUADS * 4u);
        }
        workgroupBarrier();
        // A thread's lower rows see all tokens of the first half, and its upper rows none of the second.
        if depth < CHUNK / 2u {
            for (var k = 0u; k < DEPTH; k++) {
                let token = depth + k;
                #emit factors(k)
                #emit add_earlier(0, upper.x)
                #emit add_earlier(1, upper.y)
                #emit add_earlier(2, upper.z)
                #emit add_earlier(3, upper.w)
                #emit add_lower(columns)
            }
        } else {
            for (var k = 0u; k < DEPTH; k++) {
                let token = depth + k;
                #emit factors(k)
                #emit add_earlier(4, lower.x)
                #emit add_earlier(5, lower.y)
                #emit add_earlier(6, lower.z)
                #emit add_earlier(7, lower.w)
            }
        }
        workgroupBarrier();
    }
    // No state is before the first chunk.
    if first > 0u {
        for (var depth = 0u; depth < N; depth += DEPTH) {
            for (var e = thread; e < VECTORS; e += THREADS) {
                left[e % DEPTH * STRIDE + e / DEPTH] = decayed_c(sequence, first, e / DEPTH * 4u, head, depth + e % DEPTH);
                right[e / QUADS * STRIDE + e % QUADS] = quad_of_state(index, depth + e / QUADS, column + e % QUADS * 4u);
            }
            workgroupBarrier();
            for (var k = 0u; k < DEPTH; k++) {
                #emit add_products(k)
            }
            workgroupBarrier();
        }
    }
    let d = column + thread % QUADS * 4u;
    for (var i = 0u; i < 8u; i++) {
        let token = first + row_of(thread, i);
        if token < S && d < D {
            let result = sums[i] + heads[HEADS + head] * quad_of_x(sequence, token, head, d);
            let at = ((sequence * S + token) * HEADS + head) * D + d;
#if WIDTH == 4
            out[at / 4u] = stored(result);
#else
            out[at] = elem(result.x);
            if d + 1u < D { out[at + 1u] = elem(result.y); }
            if d + 2u < D { out[at + 2u] = elem(result.z); }
            if d + 3u < D { out[at + 3u] = elem(result.w); }
#endif
        }
    }
}

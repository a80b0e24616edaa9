// States of chunks that begin with zeros. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_states  a workgroup per chunk, head and tile of its state: elements of the state are rows, and the head dim is columns

#import lib/launch
#import lib/pieces{WIDTH}
#import ssm_scan/chunk
#import ssm_scan/quads
#import ssm_scan/tile

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> dt: array<elem>;
@group(0) @binding(2) var<storage, read> b: array<stored>;
@group(0) @binding(3) var<storage, read> heads: array<f32>;
@group(0) @binding(4) var<storage, read_write> states: array<piece>;
@group(0) @binding(5) var<storage, read_write> totals: array<f32>;

const ACROSS: u32 = (D + 63u) / 64u;
const DOWN: u32 = (N + 63u) / 64u;

// Four elements of a token's row of B.
fn quad_of_b(sequence: u32, token: u32, head: u32, n: u32) -> vec4<f32> {
    if token >= S || n >= N {
        return vec4<f32>();
    }
    let at = ((sequence * S + token) * GROUPS + head / (HEADS / GROUPS)) * N + n;
#if WIDTH == 4
    return vec4<f32>(b[at / 4u]);
#else
    let last = at - n + N - 1u;
    let four = vec4<elem>(b[at], b[min(at + 1u, last)], b[min(at + 2u, last)], b[min(at + 3u, last)]);
    return select(vec4<f32>(), vec4<f32>(four), vec4<u32>(n) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(N));
#endif
}

@compute @workgroup_size(THREADS)
fn ssm_scan_states(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tile = flat_group(group, groups);
    let index = tile / (DOWN * ACROSS);
    if index >= SEQUENCES * CHUNKS * HEADS {
        return;
    }
    let row = tile / ACROSS % DOWN * 64u;
    let column = tile % ACROSS * 64u;
    let head = index % HEADS;
    let sequence = index / HEADS / CHUNKS;
    let first = index / HEADS % CHUNKS * CHUNK;
    fill_steps(thread, sequence, head, first);
    let total = exponents[CHUNK - 1u];
    if row == 0u && column == 0u && thread == 0u {
        totals[index] = total;
    }
    var sums: array<vec4<f32>, 8>;
    for (var depth = 0u; depth < CHUNK; depth += DEPTH) {
        for (var e = thread; e < VECTORS; e += THREADS) {
            let j = depth + e / QUADS;
            let weight = exp(total - exponents[j]) * steps[j];
            let at = e / QUADS * STRIDE + e % QUADS;
            left[at] = quad_of_b(sequence, first + j, head, row + e % QUADS * 4u);
            right[at] = weight * quad_of_x(sequence, first + j, head, column + e % QUADS * 4u);
        }
        workgroupBarrier();
        for (var k = 0u; k < DEPTH; k++) {
            #emit add_products(k)
        }
        workgroupBarrier();
    }
    let d = column + thread % QUADS * 4u;
    for (var i = 0u; i < 8u; i++) {
        let n = row + row_of(thread, i);
        if n < N && d < D {
            let at = (index * N + n) * D + d;
#if WIDTH == 4
            states[at / 4u] = sums[i];
#else
            states[at] = sums[i].x;
            if d + 1u < D { states[at + 1u] = sums[i].y; }
            if d + 2u < D { states[at + 2u] = sums[i].z; }
            if d + 3u < D { states[at + 3u] = sums[i].w; }
#endif
        }
    }
}

// Results and states of the gated delta rule, chunk by chunk. See core/workloads/src/ops/gated_delta/chunked.rs.
//
// gated_delta_chunks  a workgroup per head of a sequence and COLUMNS columns, whose state stays in workgroup memory
//
// A thread has four tokens, or four rows of the state, and four columns. Products of a weight of zero and NaN are NaN: later tokens
// are left out, not weighted by zero.

#import lib/launch
#import gated_delta/chunk

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read> g: array<f32>;
@group(0) @binding(4) var<storage, read> inverse: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> scores: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out: array<elem>;
@group(0) @binding(7) var<storage, read_write> state: array<f32>;

// Vectors of a chunk's tokens, and of columns.
const QUADS: u32 = CHUNK / 4u;
const ACROSS: u32 = COLUMNS / 4u;
const STRIDE: u32 = QUADS + 1u;
const VECTORS: u32 = DEPTH * QUADS;
// Rows of the state in whole steps of the depth.
const PADDED: u32 = (DK + DEPTH - 1u) / DEPTH * DEPTH;

var<workgroup> left: array<vec4<f32>, DEPTH * STRIDE>;
var<workgroup> states: array<vec4<f32>, PADDED * ACROSS>;
var<workgroup> deltas: array<vec4<f32>, CHUNK * ACROSS>;

fn one_of_q(sequence: u32, token: u32, head: u32, row: u32) -> f32 {
    if token >= S || row >= DK {
        return 0.0;
    }
    return f32(q[((sequence * S + token) * HEADS + head) * DK + row]);
}

fn one_of_k(sequence: u32, token: u32, head: u32, row: u32) -> f32 {
    if token >= S || row >= DK {
        return 0.0;
    }
    return f32(k[((sequence * S + token) * HEADS + head) * DK + row]);
}

// Four columns of a token's value, zeros outside.
fn quad_of_v(sequence: u32, token: u32, head: u32, column: u32) -> vec4<f32> {
    var four = vec4<f32>();
    for (var e = 0u; e < 4u; e++) {
        if token < S && column + e < DV {
            four[e] = f32(v[((sequence * S + token) * HEADS + head) * DV + column + e]);
        }
    }
    return four;
}

// Sets the sums of a thread to zero.
#block clear()
    s0 = vec4<f32>();
    s1 = vec4<f32>();
    s2 = vec4<f32>();
    s3 = vec4<f32>();
#end

// Adds the products of index i of the depth.
#block add_products(RIGHT)
    let rows = left[i * STRIDE + own];
    let columns = RIGHT;
    s0 += rows.x * columns;
    s1 += rows.y * columns;
    s2 += rows.z * columns;
    s3 += rows.w * columns;
#end

// Adds the products of token `depth + i`, unless it is later than a row.
#block add_earlier()
    let rows = left[i * STRIDE + own];
    let columns = deltas[(depth + i) * ACROSS + across];
    s0 = select(s0, s0 + rows.x * columns, depth + i <= own * 4u);
    s1 = select(s1, s1 + rows.y * columns, depth + i <= own * 4u + 1u);
    s2 = select(s2, s2 + rows.z * columns, depth + i <= own * 4u + 2u);
    s3 = select(s3, s3 + rows.w * columns, depth + i <= own * 4u + 3u);
#end

// Stores a token's four results.
fn give(sequence: u32, token: u32, head: u32, column: u32, results: vec4<f32>) {
    for (var e = 0u; e < 4u; e++) {
        if token < S && column + e < DV {
            out[((sequence * S + token) * HEADS + head) * DV + column + e] = elem(results[e]);
        }
    }
}

@compute @workgroup_size(THREADS)
fn gated_delta_chunks(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    let of_head = index / PARTS;
    if of_head >= SEQUENCES * HEADS {
        return;
    }
    let sequence = of_head / HEADS;
    let head = of_head % HEADS;
    let own = thread / ACROSS;
    let across = thread % ACROSS;
    let column = index % PARTS * COLUMNS + across * 4u;
    for (var e = thread; e < PADDED * ACROSS; e += THREADS) {
        states[e] = vec4<f32>();
    }
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    for (var chunk = 0u; chunk < CHUNKS; chunk++) {
        let first = chunk * CHUNK;
        let factors = ((sequence * CHUNKS + chunk) * HEADS + head) * CHUNK;
        // Ends the reads of the sums before.
        workgroupBarrier();
        fill_exponents(thread, sequence, head, first);
        let decays = exp(vec4<f32>(
            exponents[own * 4u], exponents[own * 4u + 1u], exponents[own * 4u + 2u], exponents[own * 4u + 3u]));

        // Values, less those that the state has for their keys.
        #emit clear()
        for (var depth = 0u; depth < PADDED; depth += DEPTH) {
            for (var e = thread; e < VECTORS; e += THREADS) {
                let row = depth + e % DEPTH;
                let token = first + e / DEPTH * 4u;
                left[e % DEPTH * STRIDE + e / DEPTH] = vec4<f32>(
                    one_of_k(sequence, token, head, row), one_of_k(sequence, token + 1u, head, row),
                    one_of_k(sequence, token + 2u, head, row), one_of_k(sequence, token + 3u, head, row));
            }
            workgroupBarrier();
            for (var i = 0u; i < DEPTH; i++) {
                #emit add_products(states[(depth + i) * ACROSS + across])
            }
            workgroupBarrier();
        }
        let token = first + own * 4u;
        deltas[own * 4u * ACROSS + across] = quad_of_v(sequence, token, head, column) - decays.x * s0;
        deltas[(own * 4u + 1u) * ACROSS + across] = quad_of_v(sequence, token + 1u, head, column) - decays.y * s1;
        deltas[(own * 4u + 2u) * ACROSS + across] = quad_of_v(sequence, token + 2u, head, column) - decays.z * s2;
        deltas[(own * 4u + 3u) * ACROSS + across] = quad_of_v(sequence, token + 3u, head, column) - decays.w * s3;

        // Deltas, by the inverse.
        #emit clear()
        for (var depth = 0u; depth < CHUNK; depth += DEPTH) {
            for (var e = thread; e < VECTORS; e += THREADS) {
                left[e / QUADS * STRIDE + e % QUADS] = inverse[(factors + depth + e / QUADS) * QUADS + e % QUADS];
            }
            workgroupBarrier();
            for (var i = 0u; i < DEPTH; i++) {
                #emit add_earlier()
            }
            workgroupBarrier();
        }
        deltas[own * 4u * ACROSS + across] = s0;
        deltas[(own * 4u + 1u) * ACROSS + across] = s1;
        deltas[(own * 4u + 2u) * ACROSS + across] = s2;
        deltas[(own * 4u + 3u) * ACROSS + across] = s3;

        // Results from the state before the chunk, and from its tokens.
        #emit clear()
        for (var depth = 0u; depth < PADDED; depth += DEPTH) {
            for (var e = thread; e < VECTORS; e += THREADS) {
                let row = depth + e % DEPTH;
                let of_quad = first + e / DEPTH * 4u;
                left[e % DEPTH * STRIDE + e / DEPTH] = vec4<f32>(
                    one_of_q(sequence, of_quad, head, row), one_of_q(sequence, of_quad + 1u, head, row),
                    one_of_q(sequence, of_quad + 2u, head, row), one_of_q(sequence, of_quad + 3u, head, row));
            }
            workgroupBarrier();
            for (var i = 0u; i < DEPTH; i++) {
                #emit add_products(states[(depth + i) * ACROSS + across])
            }
            workgroupBarrier();
        }
        s0 *= SCALE * decays.x;
        s1 *= SCALE * decays.y;
        s2 *= SCALE * decays.z;
        s3 *= SCALE * decays.w;
        for (var depth = 0u; depth < CHUNK; depth += DEPTH) {
            for (var e = thread; e < VECTORS; e += THREADS) {
                left[e / QUADS * STRIDE + e % QUADS] = scores[(factors + depth + e / QUADS) * QUADS + e % QUADS];
            }
            workgroupBarrier();
            for (var i = 0u; i < DEPTH; i++) {
                #emit add_earlier()
            }
            workgroupBarrier();
        }
        give(sequence, token, head, column, s0);
        give(sequence, token + 1u, head, column, s1);
        give(sequence, token + 2u, head, column, s2);
        give(sequence, token + 3u, head, column, s3);

        // The state after the chunk, 64 rows at a time.
        let total = exponents[CHUNK - 1u];
        for (var base = 0u; base < DK; base += CHUNK) {
            #emit clear()
            for (var depth = 0u; depth < CHUNK; depth += DEPTH) {
                for (var e = thread; e < VECTORS; e += THREADS) {
                    let j = depth + e / QUADS;
                    let row = base + e % QUADS * 4u;
                    left[e / QUADS * STRIDE + e % QUADS] = exp(total - exponents[j]) * vec4<f32>(
                        one_of_k(sequence, first + j, head, row), one_of_k(sequence, first + j, head, row + 1u),
                        one_of_k(sequence, first + j, head, row + 2u), one_of_k(sequence, first + j, head, row + 3u));
                }
                workgroupBarrier();
                for (var i = 0u; i < DEPTH; i++) {
                    #emit add_products(deltas[(depth + i) * ACROSS + across])
                }
                workgroupBarrier();
            }
            let row = base + own * 4u;
            if row < DK { states[row * ACROSS + across] = exp(total) * states[row * ACROSS + across] + s0; }
            if row + 1u < DK { states[(row + 1u) * ACROSS + across] = exp(total) * states[(row + 1u) * ACROSS + across] + s1; }
            if row + 2u < DK { states[(row + 2u) * ACROSS + across] = exp(total) * states[(row + 2u) * ACROSS + across] + s2; }
            if row + 3u < DK { states[(row + 3u) * ACROSS + across] = exp(total) * states[(row + 3u) * ACROSS + across] + s3; }
        }
    }
    workgroupBarrier();
    for (var e = thread; e < DK * COLUMNS; e += THREADS) {
        let of_state = index % PARTS * COLUMNS + e % COLUMNS;
        if of_state < DV {
            state[(of_head * DK + e / COLUMNS) * DV + of_state] = states[e / 4u][e % 4u];
        }
    }
}

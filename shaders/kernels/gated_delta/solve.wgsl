// Factors of a chunk of the gated delta rule. See core/workloads/src/ops/gated_delta/chunked.rs.
//
// gated_delta_solve  a workgroup per chunk and head: weighted scores of queries, and the inverse of the system of its tokens
//
// Rows of both results are earlier tokens, and columns later ones.
//
// Blocks of sixteen tokens are solved column by column, and joined in pairs. For the inverses P and Q of two neighbouring blocks,
// and the weights W of the later one for the earlier one, that of both has -Q · W · P between them.

#import lib/launch
#import gated_delta/chunk
#import ssm_scan/tile

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> g: array<f32>;
@group(0) @binding(3) var<storage, read> beta: array<elem>;
@group(0) @binding(4) var<storage, read_write> inverse: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> scores: array<vec4<f32>>;

// Most elements of a thread in the weights between blocks.
const PARTS: u32 = CHUNK * 16u / THREADS;

var<workgroup> betas: array<f32, CHUNK>;
// Below the diagonal, row i has its weights of earlier tokens. Above it, row j has column j of the inverse.
var<workgroup> system: array<f32, CHUNK * CHUNK>;

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

// Decays between an earlier token and four later ones of the chunk, from `i` on; zero for those before it.
fn decays(i: u32, j: u32) -> vec4<f32> {
    let later = vec4<f32>(exponents[i], exponents[i + 1u], exponents[i + 2u], exponents[i + 3u]);
    let behind = vec4<u32>(i) + vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(j);
    return select(vec4<f32>(), exp(select(vec4<f32>(), later - exponents[j], behind)), behind);
}

// Element of the inverse for an earlier token j and a later token i.
fn one_of_inverse(j: u32, i: u32) -> f32 {
    return select(select(0.0, 1.0, i == j), system[j * CHUNK + i], i > j);
}

// Solves column j within its block of sixteen: a token's part is its own, less those of the tokens between.
fn solve_column(j: u32) {
    for (var i = j + 1u; i < (j / 16u + 1u) * 16u; i++) {
        var sum = system[i * CHUNK + j];
        for (var m = j + 1u; m < i; m++) {
            sum = fma(system[i * CHUNK + m], system[j * CHUNK + m], sum);
        }
        system[j * CHUNK + i] = -sum;
    }
}

// Index of the first token of the later block, for element e of the weights between all pairs of blocks of `half` tokens.
fn middle_of(e: u32, half: u32) -> u32 {
    return e / (half * half) * 2u * half + half;
}

// Joins blocks of `half` tokens. All threads must call, between barriers.
fn join(thread: u32, half: u32) {
    var sums: array<f32, PARTS>;
    for (var n = 0u; n < PARTS; n++) {
        let e = n * THREADS + thread;
        if e < CHUNK * half / 2u {
            let middle = middle_of(e, half);
            let i = middle + e / half % half;
            let j = middle - half + e % half;
            var sum = system[i * CHUNK + j];
            for (var m = j + 1u; m < middle; m++) {
                sum = fma(system[i * CHUNK + m], system[j * CHUNK + m], sum);
            }
            sums[n] = sum;
        }
    }
    workgroupBarrier();
    // W · P in place of W.
    for (var n = 0u; n < PARTS; n++) {
        let e = n * THREADS + thread;
        if e < CHUNK * half / 2u {
            let middle = middle_of(e, half);
            system[(middle + e / half % half) * CHUNK + middle - half + e % half] = sums[n];
        }
    }
    workgroupBarrier();
    for (var n = 0u; n < PARTS; n++) {
        let e = n * THREADS + thread;
        if e < CHUNK * half / 2u {
            let middle = middle_of(e, half);
            let i = middle + e / half % half;
            let j = middle - half + e % half;
            var sum = sums[n];
            for (var m = middle; m < i; m++) {
                sum = fma(system[m * CHUNK + i], system[m * CHUNK + j], sum);
            }
            system[j * CHUNK + i] = -sum;
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn gated_delta_solve(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    if index >= SEQUENCES * CHUNKS * HEADS {
        return;
    }
    let head = index % HEADS;
    let sequence = index / HEADS / CHUNKS;
    let first = index / HEADS % CHUNKS * CHUNK;
    if thread < CHUNK {
        var strength = 0.0;
        if first + thread < S {
            strength = f32(beta[(sequence * S + first + thread) * HEADS + head]);
        }
        betas[thread] = strength;
    }
    fill_exponents(thread, sequence, head, first);
    let later = thread % QUADS * 4u;
    var sums: array<vec4<f32>, 8>;
    for (var depth = 0u; depth < DK; depth += DEPTH) {
        for (var e = thread; e < VECTORS; e += THREADS) {
            let row = depth + e % DEPTH;
            let token = first + e / DEPTH * 4u;
            let four = vec4<f32>(
                one_of_k(sequence, token, head, row), one_of_k(sequence, token + 1u, head, row),
                one_of_k(sequence, token + 2u, head, row), one_of_k(sequence, token + 3u, head, row));
            left[e % DEPTH * STRIDE + e / DEPTH] = four;
            right[e % DEPTH * STRIDE + e / DEPTH] = four;
        }
        workgroupBarrier();
        for (var i = 0u; i < DEPTH; i++) {
            #emit add_products(i)
        }
        workgroupBarrier();
    }
    for (var n = 0u; n < 8u; n++) {
        let j = row_of(thread, n);
        let weighted = decays(later, j) * sums[n];
        for (var e = 0u; e < 4u; e++) {
            if later + e > j {
                system[(later + e) * CHUNK + j] = betas[later + e] * weighted[e];
            }
        }
        sums[n] = vec4<f32>();
    }
    for (var depth = 0u; depth < DK; depth += DEPTH) {
        for (var e = thread; e < VECTORS; e += THREADS) {
            let row = depth + e % DEPTH;
            let token = first + e / DEPTH * 4u;
            left[e % DEPTH * STRIDE + e / DEPTH] = vec4<f32>(
                one_of_k(sequence, token, head, row), one_of_k(sequence, token + 1u, head, row),
                one_of_k(sequence, token + 2u, head, row), one_of_k(sequence, token + 3u, head, row));
            right[e % DEPTH * STRIDE + e / DEPTH] = vec4<f32>(
                one_of_q(sequence, token, head, row), one_of_q(sequence, token + 1u, head, row),
                one_of_q(sequence, token + 2u, head, row), one_of_q(sequence, token + 3u, head, row));
        }
        workgroupBarrier();
        for (var i = 0u; i < DEPTH; i++) {
            #emit add_products(i)
        }
        workgroupBarrier();
    }
    for (var n = 0u; n < 8u; n++) {
        let j = row_of(thread, n);
        scores[(index * CHUNK + j) * QUADS + thread % QUADS] = SCALE * decays(later, j) * sums[n];
    }
    // The barriers above end the stores of the system.
    if thread < CHUNK {
        solve_column(thread);
    }
    workgroupBarrier();
    join(thread, 16u);
    join(thread, 32u);
    for (var e = thread; e < CHUNK * QUADS; e += THREADS) {
        let j = e / QUADS;
        let i = e % QUADS * 4u;
        inverse[index * CHUNK * QUADS + e] = betas[j] * vec4<f32>(
            one_of_inverse(j, i), one_of_inverse(j, i + 1u), one_of_inverse(j, i + 2u), one_of_inverse(j, i + 3u));
    }
}

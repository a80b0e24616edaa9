// Products of the tokens of a chunk, for all heads of a group. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_scores  a workgroup per chunk and group: row j and column i have B[j] · C[i]

#import lib/launch
#import ssm_scan/tile

@group(0) @binding(0) var<storage, read> b: array<elem>;
@group(0) @binding(1) var<storage, read> c: array<elem>;
@group(0) @binding(2) var<storage, read_write> scores: array<vec4<f32>>;

// Index of element n of a token, and whether it exists.
fn place(sequence: u32, token: u32, of_group: u32, n: u32) -> u32 {
    return ((sequence * S + token) * GROUPS + of_group) * N + n;
}

fn one_of_b(sequence: u32, token: u32, of_group: u32, n: u32) -> f32 {
    if token >= S || n >= N {
        return 0.0;
    }
    return f32(b[place(sequence, token, of_group, n)]);
}

fn one_of_c(sequence: u32, token: u32, of_group: u32, n: u32) -> f32 {
    if token >= S || n >= N {
        return 0.0;
    }
    return f32(c[place(sequence, token, of_group, n)]);
}

@compute @workgroup_size(THREADS)
fn ssm_scan_scores(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    if index >= SEQUENCES * CHUNKS * GROUPS {
        return;
    }
    let of_group = index % GROUPS;
    let sequence = index / GROUPS / CHUNKS;
    let first = index / GROUPS % CHUNKS * CHUNK;
    var sums: array<vec4<f32>, 8>;
    for (var depth = 0u; depth < N; depth += DEPTH) {
        for (var e = thread; e < VECTORS; e += THREADS) {
            let n = depth + e % DEPTH;
            let token = first + e / DEPTH * 4u;
            let at = e % DEPTH * STRIDE + e / DEPTH;
            left[at] = vec4<f32>(
                one_of_b(sequence, token, of_group, n), one_of_b(sequence, token + 1u, of_group, n),
                one_of_b(sequence, token + 2u, of_group, n), one_of_b(sequence, token + 3u, of_group, n));
            right[at] = vec4<f32>(
                one_of_c(sequence, token, of_group, n), one_of_c(sequence, token + 1u, of_group, n),
                one_of_c(sequence, token + 2u, of_group, n), one_of_c(sequence, token + 3u, of_group, n));
        }
        workgroupBarrier();
        for (var k = 0u; k < DEPTH; k++) {
            #emit add_products(k)
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < 8u; i++) {
        scores[(index * CHUNK + row_of(thread, i)) * QUADS + thread % QUADS] = sums[i];
    }
}

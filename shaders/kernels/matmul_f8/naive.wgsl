// fp8 GEMM, one output element per thread, words read from device memory. The definition is in
// core/workloads/src/ops/matmul_f8.

#import lib/launch
#import matmul_f8/codes

@group(0) @binding(4) var<storage, read_write> c: array<elem>;

// Words of a part, whose products have one scale.
const PART_WORDS: u32 = SPAN / 4u;

@compute @workgroup_size(16, 16)
fn matmul_f8_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (N + 15u) / 16u;
    let index = flat_group(group, groups);
    let row = index / across * 16u + local.y;
    let col = index % across * 16u + local.x;
    if row >= M || col >= N {
        return;
    }
    var sum = 0.0;
    for (var part = 0u; part < PARTS; part++) {
        var of_part = 0.0;
        for (var i = part * PART_WORDS; i < min((part + 1u) * PART_WORDS, WORDS); i++) {
            of_part += dot(decoded_of_a(a[row * WORDS + i]), decoded(b[col * WORDS + i]));
        }
        sum = fma(of_part, scale_of_a(row, part) * scale_of_b(col, part), sum);
    }
    c[row * N + col] = elem(sum);
}

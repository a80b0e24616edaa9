// GEMM with weights of 8 bits, one output element per thread. The definition is in core/workloads/src/ops/matmul_q8.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> a: array<elem>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read> scale: array<elem>;
@group(0) @binding(3) var<storage, read_write> c: array<elem>;

@compute @workgroup_size(16, 16)
fn matmul_q8_naive(
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
    for (var i = 0u; i < WORDS; i++) {
        let factor = f32(scale[col * GROUPS + i / GROUP_WORDS]);
        let word = b[col * WORDS + i];
        let at = (row * WORDS + i) * 4u;
        for (var place = 0u; place < 4u; place++) {
            let weight = f32(bitcast<i32>(word << (24u - 8u * place)) >> 24u);
            sum = fma(f32(a[at + place]), weight * factor, sum);
        }
    }
    c[row * N + col] = elem(sum);
}

// Grouped GEMM, one output element per thread, which searches its row's group. The definition is in
// core/workloads/src/ops/grouped_matmul.

#import lib/launch
#import grouped_matmul/groups

@group(0) @binding(0) var<storage, read> a: array<elem>;
@group(0) @binding(1) var<storage, read> offsets: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<elem>;
@group(0) @binding(3) var<storage, read_write> c: array<elem>;

@compute @workgroup_size(16, 16)
fn grouped_matmul_naive(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (N + 15u) / 16u;
    let index = flat_group(id, ids);
    let row = index / across * 16u + local.y;
    let col = index % across * 16u + local.x;
    if row >= M || col >= N {
        return;
    }
    // The last group that begins at the row or before.
    var group = 0u;
    var end = GROUPS;
    while group + 1u < end {
        let middle = group + (end - group) / 2u;
        if begin_of(middle) <= row {
            group = middle;
        } else {
            end = middle;
        }
    }
    var sum = 0.0;
    for (var i = 0u; i < K; i++) {
        sum = fma(f32(a[row * K + i]), f32(b[(group * K + i) * N + col]), sum);
    }
    c[row * N + col] = elem(sum);
}

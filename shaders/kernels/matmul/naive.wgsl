// Matrix product, one output element per thread, every factor read from device memory. The definition is in
// core/src/suite/workloads/matmul.rs.

#import lib/launch
#import matmul/common

@compute @workgroup_size(16, 16)
fn matmul_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (N + 15u) / 16u;
    let tile = flat_group(group, groups);
    let row = tile / across * 16u + local.y;
    let col = tile % across * 16u + local.x;
    if row >= M || col >= N {
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < K; i++) {
        let left = row * K + i;
        let right = i * N + col;
        sum = fma(f32(a[left / 4u][left % 4u]), f32(b[right / 4u][right % 4u]), sum);
    }
    c[row * N + col] = elem(sum);
}

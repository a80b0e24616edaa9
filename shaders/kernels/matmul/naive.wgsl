// GEMM, one output element per thread, every factor read from device memory. The definition is in
// core/workloads/src/ops/matmul.

#import lib/launch
#import lib/product

@group(0) @binding(2) var<storage, read_write> c: array<elem>;

@compute @workgroup_size(16, 16)
fn matmul_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (N + 15u) / 16u;
    let down = (M + 15u) / 16u;
    let index = flat_group(group, groups);
    let batch = index / (across * down);
    let row = index % (across * down) / across * 16u + local.y;
    let col = index % across * 16u + local.x;
    if batch >= BATCH || row >= M || col >= N {
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < K; i++) {
        var left = (batch * M + row) * K + i;
        if A_TRANSPOSED {
            left = (batch * K + i) * M + row;
        }
        var right = (batch * K + i) * N + col;
        if B_TRANSPOSED {
            right = (batch * N + col) * K + i;
        }
        sum = fma(f32(a[left / 4u][left % 4u]), f32(b[right / 4u][right % 4u]), sum);
    }
    c[(batch * M + row) * N + col] = elem(sum);
}

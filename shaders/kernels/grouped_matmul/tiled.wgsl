// Tiled grouped GEMM without matrix units: tiles of A and B in workgroup memory, accumulators in registers. The definition is in
// core/workloads/src/ops/grouped_matmul.

#import lib/launch
#import lib/product_plain
#import lib/product_tiled

@compute @workgroup_size(THREADS_N, THREADS_M)
fn grouped_matmul_tiled(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    product_tiled(flat_group(group, groups), lane);
}

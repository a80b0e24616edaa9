// GEMM of few rows of A, bound by the memory of B. The definition is in core/workloads/src/ops/matmul.

#import lib/launch
#import lib/product_plain
#import lib/product_rows

@compute @workgroup_size(128)
fn matmul_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    product_rows(flat_group(group, groups), thread);
}

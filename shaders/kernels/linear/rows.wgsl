// GEMM of few rows of A and its epilogue in one stage: EPILOGUE is bias, gelu or residual. The definition is in
// core/workloads/src/ops/linear.

#import lib/launch
#import lib/product_rows
#import linear/epilogue_{EPILOGUE}

@compute @workgroup_size(128)
fn linear_rows_{EPILOGUE}(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    product_rows(flat_group(group, groups), thread);
}

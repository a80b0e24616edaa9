// Tiled GEMM and its epilogue in one stage: EPILOGUE is bias, gelu, kept, residual or slope. The definition is in
// core/workloads/src/ops/linear.

#import lib/launch
#import lib/product_tiled
#import linear/epilogue_{EPILOGUE}

@compute @workgroup_size(THREADS_N, THREADS_M)
fn linear_tiled_{EPILOGUE}(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    product_tiled(flat_group(group, groups), lane);
}

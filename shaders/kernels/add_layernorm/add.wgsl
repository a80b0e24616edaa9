// Sum of two matrices, in pieces: to a third one, or in place of a term. The definition is in
// core/workloads/src/ops/add_layernorm.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read_write> sum: array<stored>;
@group(0) @binding(1) var<storage, read> x: array<stored>;
@group(0) @binding(2) var<storage, read> residual: array<stored>;

@compute @workgroup_size(THREADS)
fn residual_add(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        sum[at] = stored(piece(x[at]) + piece(residual[at]));
    }
}

@compute @workgroup_size(THREADS)
fn residual_add_in_place(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        sum[at] = stored(piece(x[at]) + piece(sum[at]));
    }
}

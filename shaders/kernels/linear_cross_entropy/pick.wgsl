// Losses from stored logits and the logarithms of their sums, one thread per row. The definition is in
// core/workloads/src/ops/linear_cross_entropy.

#import lib/launch

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> lse: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read_write> loss: array<f32>;

@compute @workgroup_size(ROW_THREADS)
fn linear_cross_entropy_pick(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups) * ROW_THREADS + lane;
    if row >= ROWS {
        return;
    }
    let chosen = targets[row];
    loss[row] = 0.0;
    if chosen < CLASSES {
        loss[row] = lse[row] - logits[row * CLASSES + chosen];
    }
}

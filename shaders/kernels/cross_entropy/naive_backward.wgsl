// Gradient of cross-entropy, one workgroup of ROW_THREADS per row, one element at a time. The definition is in
// core/workloads/src/ops/cross_entropy.

#import lib/launch

@group(0) @binding(0) var<storage, read> logits: array<elem>;
@group(0) @binding(1) var<storage, read> lse: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read> dloss: array<f32>;
@group(0) @binding(4) var<storage, read_write> dlogits: array<elem>;

@compute @workgroup_size(ROW_THREADS)
fn cross_entropy_backward_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        let at = row * COLUMNS + j;
        let weight = exp(f32(logits[at]) - lse[row]);
        dlogits[at] = elem((weight - select(0.0, 1.0, j == targets[row])) * (dloss[0] * SHARE));
    }
}

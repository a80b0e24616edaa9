// Cross-entropy, one workgroup of ROW_THREADS per row, one element at a time: two passes over the row, for its maximum and its
// sum. The definition is in core/workloads/src/ops/cross_entropy.

#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> logits: array<elem>;
@group(0) @binding(1) var<storage, read_write> lse: array<f32>;
@group(0) @binding(2) var<storage, read_write> loss: array<f32>;
@group(0) @binding(3) var<storage, read> targets: array<u32>;

@compute @workgroup_size(ROW_THREADS)
fn cross_entropy_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * COLUMNS;
    var top = f32(logits[base]);
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        top = max(top, f32(logits[base + j]));
    }
    top = row_max(lane, top);
    var sum = 0.0;
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        sum += exp(f32(logits[base + j]) - top);
    }
    let total = top + log(row_sum(lane, sum));
    if lane == 0u {
        lse[row] = total;
        loss[row] = total - f32(logits[base + targets[row]]);
    }
}

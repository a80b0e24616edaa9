// Cross-entropy of logits that are dot products, a workgroup per row of them and a thread per logit: running maxima and sums. The
// definition is in core/workloads/src/ops/linear_cross_entropy.

#import lib/launch
#import lib/reduce
#import linear_cross_entropy/part

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read_write> loss: array<f32>;
@group(0) @binding(4) var<storage, read_write> lse: array<f32>;

@compute @workgroup_size(ROW_THREADS)
fn linear_cross_entropy_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let chosen = targets[row];
    var part = no_part();
    var of_chosen = 0.0;
    for (var column = lane; column < CLASSES; column += ROW_THREADS) {
        var logit = 0.0;
        for (var k = 0u; k < DEPTH; k++) {
            logit += f32(x[row * DEPTH + k]) * f32(w[column * DEPTH + k]);
        }
        part = joined(part, vec2<f32>(logit, 1.0));
        if column == chosen {
            of_chosen = logit;
        }
    }
    let top = row_max(lane, part.x);
    let sum = row_sum(lane, part.y * exp(part.x - top));
    of_chosen = row_sum(lane, of_chosen);
    if lane == 0u {
        let total = log_sum(vec2<f32>(top, sum));
        lse[row] = total;
        loss[row] = 0.0;
        if chosen < CLASSES {
            loss[row] = total - of_chosen;
        }
    }
}

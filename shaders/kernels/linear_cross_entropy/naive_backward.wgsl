// Gradients by a thread an element. The definition is in core/workloads/src/ops/linear_cross_entropy.
//
// linear_cross_entropy_naive_slopes    gradients of all logits, in f32
// linear_cross_entropy_naive_gradient  gradient of X, or BY_COLUMNS of W, from these and the other matrix

#import lib/launch
#import linear_cross_entropy/slope

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read> lse: array<f32>;
@group(0) @binding(4) var<storage, read> dloss: array<f32>;
@group(0) @binding(5) var<storage, read_write> slopes: array<f32>;
// Bindings of the second entry point.
@group(0) @binding(0) var<storage, read> all_slopes: array<f32>;
@group(0) @binding(1) var<storage, read> other: array<elem>;
@group(0) @binding(2) var<storage, read_write> gradient: array<elem>;

@compute @workgroup_size(ROW_THREADS)
fn linear_cross_entropy_naive_slopes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    for (var column = lane; column < CLASSES; column += ROW_THREADS) {
        var logit = 0.0;
        for (var k = 0u; k < DEPTH; k++) {
            logit += f32(x[row * DEPTH + k]) * f32(w[column * DEPTH + k]);
        }
        slopes[row * CLASSES + column] = slope_of(column, targets[row], logit, lse[row], dloss[row]);
    }
}

@compute @workgroup_size(ROW_THREADS)
fn linear_cross_entropy_naive_gradient(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * ROW_THREADS + lane;
    let rows = select(ROWS, CLASSES, BY_COLUMNS);
    if at >= rows * DEPTH {
        return;
    }
    let row = at / DEPTH;
    let terms = select(CLASSES, ROWS, BY_COLUMNS);
    var sum = 0.0;
    for (var term = 0u; term < terms; term++) {
        sum += all_slopes[select(row * CLASSES + term, term * CLASSES + row, BY_COLUMNS)] * f32(other[term * DEPTH + at % DEPTH]);
    }
    gradient[at] = elem(sum);
}

// Logits of all pairs, a workgroup per row of them and a thread per logit. The definition is in
// core/workloads/src/ops/loss_sigmoid.
//
// loss_sigmoid_naive_logits  stores the logits
// loss_sigmoid_naive_slopes  stores the loss's slopes by logit, and the row's parts of two sums of these: see `scalars`

#import lib/launch
#import lib/reduce
#import loss_sigmoid/pair

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> y: array<elem>;
@group(0) @binding(2) var<storage, read> temperature: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> logits: array<f32>;
// Binding of the backward pass.
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;
@group(0) @binding(5) var<storage, read> dloss: array<f32>;
@group(0) @binding(6) var<storage, read_write> slopes: array<f32>;

fn dot_of(row: u32, column: u32) -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < D; k++) {
        sum += f32(x[row * D + k]) * f32(y[column * D + k]);
    }
    return sum;
}

@compute @workgroup_size(ROW_THREADS)
fn loss_sigmoid_naive_logits(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= N {
        return;
    }
    for (var column = lane; column < N; column += ROW_THREADS) {
        logits[row * N + column] = temperature[0] * dot_of(row, column) + bias[0];
    }
}

@compute @workgroup_size(ROW_THREADS)
fn loss_sigmoid_naive_slopes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= N {
        return;
    }
    var along = 0.0;
    var level = 0.0;
    for (var column = lane; column < N; column += ROW_THREADS) {
        let dot = dot_of(row, column);
        let slope = slope_of(row, column, temperature[0] * dot + bias[0]) * (dloss[0] * SHARE);
        slopes[row * N + column] = slope;
        along += slope * dot;
        level += slope;
    }
    along = row_sum(lane, along);
    level = row_sum(lane, level);
    if lane == 0u {
        parts[2u * row] = along;
        parts[2u * row + 1u] = level;
    }
}

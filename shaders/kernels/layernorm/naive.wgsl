// Layer normalisation of rows and its backward pass, one element at a time. The definition is in
// core/workloads/src/ops/layernorm.
//
// layernorm_statistics      one workgroup of ROW_THREADS per row: the mean, then the deviation from it
// layernorm_apply           the same, and the result
// layernorm_backward_naive  the same: two means over the row, and the gradient of x
// layernorm_columns         one thread per column: the gradients of gamma and beta

#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> row_mean: array<f32>;
@group(0) @binding(2) var<storage, read_write> row_rstd: array<f32>;
// Bindings of the stages that read the statistics.
@group(0) @binding(1) var<storage, read> mean: array<f32>;
@group(0) @binding(2) var<storage, read> rstd: array<f32>;
@group(0) @binding(3) var<storage, read> gamma: array<elem>;
// Binding of the forward pass.
@group(0) @binding(4) var<storage, read> beta: array<elem>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;
// Bindings of the backward pass.
@group(0) @binding(4) var<storage, read> dout: array<elem>;
@group(0) @binding(5) var<storage, read_write> dx: array<elem>;
@group(0) @binding(3) var<storage, read_write> dgamma: array<elem>;
@group(0) @binding(5) var<storage, read_write> dbeta: array<elem>;

@compute @workgroup_size(ROW_THREADS)
fn layernorm_statistics(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * COLUMNS;
    var sum = 0.0;
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        sum += f32(x[base + j]);
    }
    let middle = row_sum(lane, sum) / f32(COLUMNS);
    var square_sum = 0.0;
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        let deviation = f32(x[base + j]) - middle;
        square_sum += deviation * deviation;
    }
    let scale = inverseSqrt(row_sum(lane, square_sum) / f32(COLUMNS) + EPS);
    if lane == 0u {
        row_mean[row] = middle;
        row_rstd[row] = scale;
    }
}

@compute @workgroup_size(ROW_THREADS)
fn layernorm_apply(
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
        out[at] = elem((f32(x[at]) - mean[row]) * rstd[row] * f32(gamma[j]) + f32(beta[j]));
    }
}

@compute @workgroup_size(ROW_THREADS)
fn layernorm_backward_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * COLUMNS;
    var along = 0.0;
    var level = 0.0;
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        let gradient = f32(dout[base + j]) * f32(gamma[j]);
        level += gradient;
        along += gradient * (f32(x[base + j]) - mean[row]) * rstd[row];
    }
    level = row_sum(lane, level) / f32(COLUMNS);
    along = row_sum(lane, along) / f32(COLUMNS);
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        let normalised = (f32(x[base + j]) - mean[row]) * rstd[row];
        let gradient = f32(dout[base + j]) * f32(gamma[j]);
        dx[base + j] = elem(rstd[row] * (gradient - level - normalised * along));
    }
}

@compute @workgroup_size(ROW_THREADS)
fn layernorm_columns(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let column = flat_group(group, groups) * ROW_THREADS + lane;
    if column >= COLUMNS {
        return;
    }
    var along = 0.0;
    var level = 0.0;
    for (var row = 0u; row < ROWS; row++) {
        let at = row * COLUMNS + column;
        level += f32(dout[at]);
        along += f32(dout[at]) * (f32(x[at]) - mean[row]) * rstd[row];
    }
    dgamma[column] = elem(along);
    dbeta[column] = elem(level);
}

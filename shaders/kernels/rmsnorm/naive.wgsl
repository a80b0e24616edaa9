// RMS normalisation of rows and its backward pass, one element at a time. The definition is in core/workloads/src/ops/rmsnorm.
//
// rmsnorm_statistics      one workgroup of ROW_THREADS per row: the normalising factor
// rmsnorm_naive           the same, and a second pass: the result
// rmsnorm_backward_naive  one workgroup per row: a mean over the row, the gradient of x
// rmsnorm_columns         one thread per column: the gradient of gamma

#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> gamma: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<storage, read_write> row_rstd: array<f32>;
// Binding of the backward pass.
@group(0) @binding(2) var<storage, read> rstd: array<f32>;
@group(0) @binding(3) var<storage, read> dout: array<elem>;
@group(0) @binding(4) var<storage, read_write> dx: array<elem>;
@group(0) @binding(1) var<storage, read_write> dgamma: array<elem>;
// Binding of the set-up.
@group(0) @binding(1) var<storage, read_write> only_rstd: array<f32>;

// Normalising factor of a row.
fn row_scale(row: u32, lane: u32) -> f32 {
    var square_sum = 0.0;
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        let value = f32(x[row * COLUMNS + j]);
        square_sum += value * value;
    }
    return inverseSqrt(row_sum(lane, square_sum) / f32(COLUMNS) + EPS);
}

@compute @workgroup_size(ROW_THREADS)
fn rmsnorm_statistics(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let scale = row_scale(row, lane);
    if lane == 0u {
        only_rstd[row] = scale;
    }
}

@compute @workgroup_size(ROW_THREADS)
fn rmsnorm_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let scale = row_scale(row, lane);
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        out[row * COLUMNS + j] = elem(f32(x[row * COLUMNS + j]) * scale * f32(gamma[j]));
    }
    if lane == 0u {
        row_rstd[row] = scale;
    }
}

@compute @workgroup_size(ROW_THREADS)
fn rmsnorm_backward_naive(
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
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        along += f32(dout[base + j]) * f32(gamma[j]) * f32(x[base + j]) * rstd[row];
    }
    along = row_sum(lane, along) / f32(COLUMNS);
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        let gradient = f32(dout[base + j]) * f32(gamma[j]);
        dx[base + j] = elem(rstd[row] * (gradient - f32(x[base + j]) * rstd[row] * along));
    }
}

@compute @workgroup_size(ROW_THREADS)
fn rmsnorm_columns(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let column = flat_group(group, groups) * ROW_THREADS + lane;
    if column >= COLUMNS {
        return;
    }
    var sum = 0.0;
    for (var row = 0u; row < ROWS; row++) {
        let at = row * COLUMNS + column;
        sum += f32(dout[at]) * f32(x[at]) * rstd[row];
    }
    dgamma[column] = elem(sum);
}

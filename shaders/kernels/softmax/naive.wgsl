// Softmax of rows and its backward pass, one workgroup of ROW_THREADS per row, one element at a time. The definition is in
// core/workloads/src/ops/softmax.
//
// softmax_naive           three passes over the row: maximum, sum, result
// softmax_backward_naive  two passes: the sum of y·dout, the gradient

#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
// Bindings of the backward pass.
@group(0) @binding(0) var<storage, read> y: array<elem>;
@group(0) @binding(1) var<storage, read> dout: array<elem>;
@group(0) @binding(2) var<storage, read_write> dx: array<elem>;

@compute @workgroup_size(ROW_THREADS)
fn softmax_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * COLUMNS;
    var top = f32(x[base]);
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        top = max(top, f32(x[base + j]));
    }
    top = row_max(lane, top);
    var sum = 0.0;
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        sum += exp(f32(x[base + j]) - top);
    }
    sum = row_sum(lane, sum);
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        out[base + j] = elem(exp(f32(x[base + j]) - top) / sum);
    }
}

@compute @workgroup_size(ROW_THREADS)
fn softmax_backward_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * COLUMNS;
    var dot = 0.0;
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        dot += f32(y[base + j]) * f32(dout[base + j]);
    }
    dot = row_sum(lane, dot);
    for (var j = lane; j < COLUMNS; j += ROW_THREADS) {
        dx[base + j] = elem(f32(y[base + j]) * (f32(dout[base + j]) - dot));
    }
}

// GELU and its derivative, in pieces. The definition is in core/workloads/src/ops/gelu.rs.

#import gelu/share
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> out: array<stored>;
// Bindings of the backward pass.
@group(0) @binding(1) var<storage, read> dout: array<stored>;
@group(0) @binding(2) var<storage, read_write> dx: array<stored>;
// Binding of a backward pass that recomputes the result.
@group(0) @binding(2) var<storage, read_write> anew: array<stored>;
@group(0) @binding(3) var<storage, read_write> gradient: array<stored>;

@compute @workgroup_size(THREADS)
fn gelu_forward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    if ERF {
        out[at] = stored(gelu_erf(piece(x[at])));
    } else {
        out[at] = stored(gelu_tanh(piece(x[at])));
    }
}

@compute @workgroup_size(THREADS)
fn gelu_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    if ERF {
        dx[at] = stored(piece(dout[at]) * slope_erf(piece(x[at])));
    } else {
        dx[at] = stored(piece(dout[at]) * slope_tanh(piece(x[at])));
    }
}

@compute @workgroup_size(THREADS)
fn gelu_through(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let value = piece(x[at]);
    if ERF {
        anew[at] = stored(gelu_erf(value));
        gradient[at] = stored(piece(dout[at]) * slope_erf(value));
    } else {
        anew[at] = stored(gelu_tanh(value));
        gradient[at] = stored(piece(dout[at]) * slope_tanh(value));
    }
}

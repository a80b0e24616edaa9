// Epilogue of a GEMM as a stage of its own, in pieces: bias, GELU, residual. The definition is in core/workloads/src/ops/linear.

#import gelu/share
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> product: array<stored>;
@group(0) @binding(1) var<storage, read_write> out: array<stored>;
@group(0) @binding(2) var<storage, read> bias: array<stored>;
@group(0) @binding(3) var<storage, read> residual: array<stored>;

fn biased(at: u32) -> piece {
    return piece(product[at]) + piece(bias[at % BIAS_PIECES]);
}

@compute @workgroup_size(THREADS)
fn linear_finish_bias(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        out[at] = stored(biased(at));
    }
}

@compute @workgroup_size(THREADS)
fn linear_finish_gelu(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        out[at] = stored(gelu_tanh(biased(at)));
    }
}

@compute @workgroup_size(THREADS)
fn linear_finish_residual(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        out[at] = stored(gelu_tanh(biased(at)) + piece(residual[at]));
    }
}

// Gradients of the per-channel parameters, from the totals of the gradient and of its products with distances from the mean. The
// definition is in core/workloads/src/ops/conv_block.

#import lib/launch

@group(0) @binding(0) var<storage, read> totals: array<f32>;
@group(0) @binding(1) var<storage, read> variance: array<f32>;
@group(0) @binding(2) var<storage, read_write> dgamma: array<elem>;
@group(0) @binding(3) var<storage, read_write> dbeta: array<elem>;
#if INFERENCE
@group(0) @binding(4) var<storage, read> gamma: array<elem>;
@group(0) @binding(5) var<storage, read_write> dbias: array<elem>;
#endif

@compute @workgroup_size(THREADS)
fn conv_block_numbers(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let channel = flat_group(group, groups) * THREADS + lane;
    if channel >= CHANNELS {
        return;
    }
    let deviation = sqrt(variance[channel] + EPS);
    dgamma[channel] = elem(totals[CHANNELS + channel] / deviation);
    dbeta[channel] = elem(totals[channel]);
#if INFERENCE
    dbias[channel] = elem(totals[channel] * f32(gamma[channel]) / deviation);
#endif
}

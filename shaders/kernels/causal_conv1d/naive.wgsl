// Causal depthwise convolution, one output element per thread. The definition is in core/workloads/src/ops/causal_conv1d.rs.

#import lib/launch
#import lib/softplus

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read> bias: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(THREADS)
fn causal_conv1d_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let channel = at % PIECES;
    let token = at / PIECES % S;
    var sum = f32(bias[channel]);
    for (var j = 0u; j < TAPS; j++) {
        // Tokens before the first are zero.
        if token + j + 1u >= TAPS {
            sum = fma(f32(w[channel * TAPS + j]), f32(x[at - (TAPS - 1u - j) * PIECES]), sum);
        }
    }
    if SILU {
        sum = silu(sum);
    }
    out[at] = elem(sum);
}

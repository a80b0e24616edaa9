// Gradient before ReLU, in pieces: the result's gradient, and zero where the result is zero or below.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> out: array<stored>;
@group(0) @binding(1) var<storage, read> dout: array<stored>;
@group(0) @binding(2) var<storage, read_write> dpre: array<stored>;

@compute @workgroup_size(THREADS)
fn depthwise_relu(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    dpre[at] = stored(gated_by(piece(out[at]), piece(dout[at])));
}

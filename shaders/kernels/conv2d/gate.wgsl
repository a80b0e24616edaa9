// Gradient before ReLU, in pieces: the result's gradient, and zero where the result is zero or below. The definition is in
// core/workloads/src/ops/conv2d/backward.rs.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> result: array<stored>;
@group(0) @binding(1) var<storage, read> gradient: array<stored>;
@group(0) @binding(2) var<storage, read_write> gated: array<stored>;

@compute @workgroup_size(THREADS)
fn conv2d_gate(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    gated[at] = stored(gated_by(piece(result[at]), piece(gradient[at])));
}

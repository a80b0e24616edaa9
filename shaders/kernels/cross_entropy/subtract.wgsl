// Gradient of cross-entropy from weights, in pieces. The definition is in core/workloads/src/ops/cross_entropy.

#import cross_entropy/target{WIDTH}
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> softmax: array<piece>;
@group(0) @binding(1) var<storage, read> targets: array<u32>;
@group(0) @binding(2) var<storage, read> dloss: array<f32>;
@group(0) @binding(3) var<storage, read_write> dlogits: array<stored>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn cross_entropy_subtract(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        let own = at_target(at % ROW_PIECES, targets[at / ROW_PIECES]);
        dlogits[at] = stored((softmax[at] - own) * (dloss[0] * SHARE));
    }
}

// Gradient of cross-entropy, in pieces: see lib/pieces1. The definition is in core/workloads/src/ops/cross_entropy.
//
// cross_entropy_backward  gradient from logits
// cross_entropy_softmax   weights only

#import cross_entropy/target{WIDTH}
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> logits: array<stored>;
@group(0) @binding(1) var<storage, read> lse: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read> dloss: array<f32>;
@group(0) @binding(4) var<storage, read_write> dlogits: array<stored>;
@group(0) @binding(2) var<storage, read_write> softmax: array<piece>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn cross_entropy_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let row = at / ROW_PIECES;
    let weights = exp(piece(logits[at]) - piece(lse[row]));
    dlogits[at] = stored((weights - at_target(at % ROW_PIECES, targets[row])) * (dloss[0] * SHARE));
}

@compute @workgroup_size(THREADS)
fn cross_entropy_softmax(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        softmax[at] = exp(piece(logits[at]) - piece(lse[at / ROW_PIECES]));
    }
}

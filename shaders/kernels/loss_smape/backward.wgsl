// Gradient of symmetric percentage error and of the penalty outside a band, in pieces. The definition is in
// core/workloads/src/ops/loss_smape.rs.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> pred: array<stored>;
@group(0) @binding(1) var<storage, read> targets: array<stored>;
@group(0) @binding(2) var<storage, read> dloss: array<f32>;
@group(0) @binding(3) var<storage, read_write> dpred: array<stored>;

@compute @workgroup_size(THREADS)
fn loss_smape_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let x = piece(pred[at]);
    let t = piece(targets[at]);
    let size = abs(t);
    let whole = abs(x) + size + piece(EPS);
    // Quotient before the second division: the squared sum may overflow f32.
    let error = 2.0 * (sign(x - t) - abs(x - t) / whole * sign(x)) / whole;
    let toward = sign(t);
    let along = x * toward;
    var outside = select(piece(0.0), toward, along > BAND * size);
    outside = select(outside, -toward, along < size / BAND);
    dpred[at] = stored((error + WEIGHT * outside / (size + piece(EPS))) * (dloss[0] * SHARE));
}

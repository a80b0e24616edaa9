// Symmetric percentage error and the penalty outside a band, in pieces, by PARTS workgroups; each stores its part of a sum. The
// definition is in core/workloads/src/ops/loss_smape.rs.
//
// loss_smape_error    the first term
// loss_smape_outside  the second term, stored after the parts of the first
// loss_smape_fused    both

#import lib/launch
#import lib/pieces{WIDTH}
#import lib/reduce

@group(0) @binding(0) var<storage, read> pred: array<stored>;
@group(0) @binding(1) var<storage, read> targets: array<stored>;
@group(0) @binding(2) var<storage, read_write> parts: array<f32>;

fn error_of(x: piece, t: piece) -> piece {
    return 2.0 * abs(x - t) / (abs(x) + abs(t) + piece(EPS));
}

fn penalty_of(x: piece, t: piece) -> piece {
    let size = abs(t);
    let along = x * sign(t);
    let outside = max(max(along - BAND * size, size / BAND - along), piece(0.0));
    return WEIGHT * outside / (size + piece(EPS));
}

@compute @workgroup_size(THREADS)
fn loss_smape_error(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    var sums = piece();
    for (var at = part * THREADS + lane; at < COUNT; at += PARTS * THREADS) {
        sums += error_of(piece(pred[at]), piece(targets[at]));
    }
    let sum = row_sum(lane, piece_sum(sums));
    if lane == 0u {
        parts[part] = sum;
    }
}

@compute @workgroup_size(THREADS)
fn loss_smape_outside(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    var sums = piece();
    for (var at = part * THREADS + lane; at < COUNT; at += PARTS * THREADS) {
        sums += penalty_of(piece(pred[at]), piece(targets[at]));
    }
    let sum = row_sum(lane, piece_sum(sums));
    if lane == 0u {
        parts[PARTS + part] = sum;
    }
}

@compute @workgroup_size(THREADS)
fn loss_smape_fused(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    var sums = piece();
    for (var at = part * THREADS + lane; at < COUNT; at += PARTS * THREADS) {
        let x = piece(pred[at]);
        let t = piece(targets[at]);
        sums += error_of(x, t) + penalty_of(x, t);
    }
    let sum = row_sum(lane, piece_sum(sums));
    if lane == 0u {
        parts[part] = sum;
    }
}

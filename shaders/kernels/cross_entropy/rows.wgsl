// Cross-entropy of rows, in pieces: see lib/pieces1. The definition is in core/workloads/src/ops/cross_entropy.
//
// cross_entropy_online       one pass over a row; each thread keeps a running maximum and sum
// cross_entropy_log_softmax  the same, and a second pass that stores the logarithm of each weight
// cross_entropy_row          the row stays in registers, PIECES pieces in each of LANES threads

#import cross_entropy/logits{WIDTH}
#import lib/lanes
#import lib/launch
#import lib/lowest
#import lib/own_row
#import lib/pieces{WIDTH}

@group(0) @binding(1) var<storage, read_write> lse: array<f32>;
@group(0) @binding(2) var<storage, read_write> loss: array<f32>;
@group(0) @binding(3) var<storage, read> targets: array<u32>;
@group(0) @binding(2) var<storage, read_write> log_softmax: array<piece>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

// Logarithm of the sum of a row's exponentials, by all threads of the workgroup.
fn log_sum(thread: u32, base: u32) -> f32 {
    // A thread without a piece contributes nothing.
    var top = LOWEST;
    var sums = piece();
    for (var at = thread; at < ROW_PIECES; at += LANES) {
        let value = piece(logits[base + at]);
        let higher = max(top, piece_max(value));
        sums = sums * exp(top - higher) + exp(value - piece(higher));
        top = higher;
    }
    let row_top = lanes_max(thread, top);
    return row_top + log(lanes_sum(thread, piece_sum(sums) * exp(top - row_top)));
}

fn store_loss(row: u32, total: f32) {
    lse[row] = total;
    loss[row] = total - logit(row * COLUMNS + targets[row]);
}

@compute @workgroup_size(THREADS)
fn cross_entropy_online(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let total = log_sum(thread, row * ROW_PIECES);
    if thread == 0u {
        store_loss(row, total);
    }
}

@compute @workgroup_size(THREADS)
fn cross_entropy_log_softmax(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * ROW_PIECES;
    let total = log_sum(thread, base);
    for (var at = thread; at < ROW_PIECES; at += LANES) {
        log_softmax[base + at] = piece(logits[base + at]) - piece(total);
    }
    if thread == 0u {
        lse[row] = total;
    }
}

@compute @workgroup_size(THREADS)
fn cross_entropy_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    #emit own_row(row, base, lane)
    var kept: array<piece, PIECES>;
    var top = LOWEST;
    for (var i = 0u; i < PIECES; i++) {
        kept[i] = piece(logits[base + min(lane + i * LANES, ROW_PIECES - 1u)]);
        top = max(top, piece_max(kept[i]));
    }
    top = lanes_max(thread, top);
    var sums = piece();
    for (var i = 0u; i < PIECES; i++) {
        sums += select(piece(), exp(kept[i] - piece(top)), lane + i * LANES < ROW_PIECES);
    }
    let total = top + log(lanes_sum(thread, piece_sum(sums)));
    if row < ROWS && lane == 0u {
        store_loss(row, total);
    }
}

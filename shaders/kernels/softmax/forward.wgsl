// Softmax of rows, in pieces: see lib/pieces1. The definition is in core/workloads/src/ops/softmax.
//
// softmax_online  two passes over a row: running maximum and sum of each thread, then the result
// softmax_row     the row is read once and kept in registers, PIECES pieces in each of LANES threads

#import lib/lanes
#import lib/launch
#import lib/lowest
#import lib/own_row
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> out: array<stored>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn softmax_online(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * ROW_PIECES;
    // A thread without a piece contributes nothing.
    var top = LOWEST;
    var sums = piece();
    for (var at = thread; at < ROW_PIECES; at += LANES) {
        let value = piece(x[base + at]);
        let higher = max(top, piece_max(value));
        sums = sums * exp(top - higher) + exp(value - piece(higher));
        top = higher;
    }
    let row_top = lanes_max(thread, top);
    let sum = lanes_sum(thread, piece_sum(sums) * exp(top - row_top));
    for (var at = thread; at < ROW_PIECES; at += LANES) {
        out[base + at] = stored(exp(piece(x[base + at]) - piece(row_top)) * (1.0 / sum));
    }
}

@compute @workgroup_size(THREADS)
fn softmax_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    #emit own_row(row, base, lane)
    var kept: array<piece, PIECES>;
    var top = LOWEST;
    for (var i = 0u; i < PIECES; i++) {
        kept[i] = piece(x[base + min(lane + i * LANES, ROW_PIECES - 1u)]);
        top = max(top, piece_max(kept[i]));
    }
    top = lanes_max(thread, top);
    var sums = piece();
    for (var i = 0u; i < PIECES; i++) {
        kept[i] = exp(kept[i] - piece(top));
        sums += select(piece(), kept[i], lane + i * LANES < ROW_PIECES);
    }
    let scale = 1.0 / lanes_sum(thread, piece_sum(sums));
    for (var i = 0u; i < PIECES; i++) {
        let at = lane + i * LANES;
        if row < ROWS && at < ROW_PIECES {
            out[base + at] = stored(kept[i] * scale);
        }
    }
}

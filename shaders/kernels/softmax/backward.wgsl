// Backward pass of softmax, in pieces: y and dout are read once, and kept in registers. The definition is in
// core/workloads/src/ops/softmax.

#import lib/lanes
#import lib/launch
#import lib/own_row
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> y: array<stored>;
@group(0) @binding(1) var<storage, read> dout: array<stored>;
@group(0) @binding(2) var<storage, read_write> dx: array<stored>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn softmax_backward_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    #emit own_row(row, base, lane)
    var weights: array<piece, PIECES>;
    var gradients: array<piece, PIECES>;
    var dots = piece();
    for (var i = 0u; i < PIECES; i++) {
        let at = min(lane + i * LANES, ROW_PIECES - 1u);
        weights[i] = piece(y[base + at]);
        gradients[i] = piece(dout[base + at]);
        dots += select(piece(), weights[i] * gradients[i], lane + i * LANES < ROW_PIECES);
    }
    let dot_row = lanes_sum(thread, piece_sum(dots));
    for (var i = 0u; i < PIECES; i++) {
        let at = lane + i * LANES;
        if row < ROWS && at < ROW_PIECES {
            dx[base + at] = stored(weights[i] * (gradients[i] - piece(dot_row)));
        }
    }
}

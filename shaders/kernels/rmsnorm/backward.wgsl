// Backward pass of RMS normalisation, in pieces: x and dout are read once. The definition is in core/workloads/src/ops/rmsnorm.
//
// PARTS workgroups process all rows, and keep their part of the gradient of gamma in registers. rmsnorm_parts sums them.

#import lib/lanes
#import lib/launch
#import lib/over_rows
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> rstd: array<f32>;
@group(0) @binding(2) var<storage, read> gamma: array<stored>;
@group(0) @binding(3) var<storage, read> dout: array<stored>;
@group(0) @binding(4) var<storage, read_write> dx: array<stored>;
// [PARTS][COLUMNS].
@group(0) @binding(5) var<storage, read_write> parts: array<piece>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn rmsnorm_backward_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    let lane = thread % LANES;
    var scales: array<piece, PIECES>;
    var dgammas: array<piece, PIECES>;
    for (var i = 0u; i < PIECES; i++) {
        scales[i] = piece(gamma[min(lane + i * LANES, ROW_PIECES - 1u)]);
    }
    for (var first = part * AT_ONCE; first < ROWS; first += PARTS * AT_ONCE) {
        // Threads without a row take part in the barriers: they read the last row, and write nothing.
        let row = min(first + thread / LANES, ROWS - 1u);
        let mine = first + thread / LANES < ROWS;
        let base = row * ROW_PIECES;
        let scale = rstd[row];
        var normalised = array<piece, PIECES>();
        var gradients = array<piece, PIECES>();
        var alongs = piece();
        for (var i = 0u; i < PIECES; i++) {
            let at = base + min(lane + i * LANES, ROW_PIECES - 1u);
            normalised[i] = piece(x[at]) * scale;
            let gradient = select(piece(), piece(dout[at]), mine && lane + i * LANES < ROW_PIECES);
            dgammas[i] += gradient * normalised[i];
            gradients[i] = gradient * scales[i];
            alongs += gradients[i] * normalised[i];
        }
        let along = lanes_sum(thread, piece_sum(alongs)) / f32(COLUMNS);
        for (var i = 0u; i < PIECES; i++) {
            if mine && lane + i * LANES < ROW_PIECES {
                dx[base + lane + i * LANES] = stored((gradients[i] - normalised[i] * along) * scale);
            }
        }
    }
    for (var i = 0u; i < PIECES; i++) {
        let dgamma = over_rows(thread, dgammas[i]);
        if thread < LANES && lane + i * LANES < ROW_PIECES {
            parts[part * ROW_PIECES + lane + i * LANES] = dgamma;
        }
    }
}

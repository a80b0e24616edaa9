// Backward pass of layer normalisation, in pieces: x and dout are read once. The definition is in
// core/workloads/src/ops/layernorm.
//
// PARTS workgroups process all rows, and keep their part of the gradients of gamma and beta in registers. layernorm_parts sums
// them. The function `also` of another file adds to the gradient of x.

#import lib/lanes2
#import lib/launch
#import lib/over_rows
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> mean: array<f32>;
@group(0) @binding(2) var<storage, read> rstd: array<f32>;
@group(0) @binding(3) var<storage, read> gamma: array<stored>;
@group(0) @binding(4) var<storage, read> dout: array<stored>;
@group(0) @binding(5) var<storage, read_write> dx: array<stored>;
// [PARTS][2][COLUMNS]: of gamma, of beta.
@group(0) @binding(6) var<storage, read_write> parts: array<piece>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn layernorm_backward_row(
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
    var dbetas: array<piece, PIECES>;
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
        var levels = piece();
        var alongs = piece();
        for (var i = 0u; i < PIECES; i++) {
            let at = base + min(lane + i * LANES, ROW_PIECES - 1u);
            let inside = mine && lane + i * LANES < ROW_PIECES;
            normalised[i] = (piece(x[at]) - piece(mean[row])) * scale;
            let gradient = select(piece(), piece(dout[at]), inside);
            dgammas[i] += gradient * normalised[i];
            dbetas[i] += gradient;
            gradients[i] = gradient * scales[i];
            levels += gradients[i];
            alongs += gradients[i] * normalised[i];
        }
        let means = lanes_sum2(thread, vec2<f32>(piece_sum(levels), piece_sum(alongs))) / f32(COLUMNS);
        for (var i = 0u; i < PIECES; i++) {
            let at = base + lane + i * LANES;
            if mine && lane + i * LANES < ROW_PIECES {
                let own = (gradients[i] - piece(means.x) - normalised[i] * means.y) * scale;
                dx[at] = stored(own + also(at));
            }
        }
    }
    for (var i = 0u; i < PIECES; i++) {
        let dgamma = over_rows(thread, dgammas[i]);
        let dbeta = over_rows(thread, dbetas[i]);
        let at = lane + i * LANES;
        if thread < LANES && at < ROW_PIECES {
            parts[part * 2u * ROW_PIECES + at] = dgamma;
            parts[(part * 2u + 1u) * ROW_PIECES + at] = dbeta;
        }
    }
}

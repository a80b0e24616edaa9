// Layer normalisation of rows, in pieces: a row is read once and kept in registers, PIECES pieces in each of LANES threads.
// The definition is in core/workloads/src/ops/layernorm. The function `row_value` of another file reads the row,
// so that a sum can be normalised as it is computed.

#import lib/lanes
#import lib/launch
#import lib/own_row
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> gamma: array<stored>;
@group(0) @binding(1) var<storage, read> beta: array<stored>;
@group(0) @binding(2) var<storage, read_write> out: array<stored>;
@group(0) @binding(3) var<storage, read_write> mean: array<f32>;
@group(0) @binding(4) var<storage, read_write> rstd: array<f32>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn layernorm_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    #emit own_row(row, base, lane)
    var kept: array<piece, PIECES>;
    var sums = piece();
    for (var i = 0u; i < PIECES; i++) {
        let at = lane + i * LANES;
        kept[i] = row_value(base + min(at, ROW_PIECES - 1u), row < ROWS && at < ROW_PIECES);
        sums += select(piece(), kept[i], at < ROW_PIECES);
    }
    let middle = lanes_sum(thread, piece_sum(sums)) / f32(COLUMNS);
    var square_sum = piece();
    for (var i = 0u; i < PIECES; i++) {
        kept[i] -= piece(middle);
        square_sum += select(piece(), kept[i] * kept[i], lane + i * LANES < ROW_PIECES);
    }
    let scale = inverseSqrt(lanes_sum(thread, piece_sum(square_sum)) / f32(COLUMNS) + EPS);
    for (var i = 0u; i < PIECES; i++) {
        let at = lane + i * LANES;
        if row < ROWS && at < ROW_PIECES {
            out[base + at] = stored(kept[i] * scale * piece(gamma[at]) + piece(beta[at]));
        }
    }
    if row < ROWS && lane == 0u {
        mean[row] = middle;
        rstd[row] = scale;
    }
}

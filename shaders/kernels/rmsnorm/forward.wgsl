// RMS normalisation of rows, in pieces: a row is read once and kept in registers, PIECES pieces in each of LANES threads. The
// definition is in core/workloads/src/ops/rmsnorm.

#import lib/lanes
#import lib/launch
#import lib/own_row
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> gamma: array<stored>;
@group(0) @binding(2) var<storage, read_write> out: array<stored>;
@group(0) @binding(3) var<storage, read_write> rstd: array<f32>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

@compute @workgroup_size(THREADS)
fn rmsnorm_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    #emit own_row(row, base, lane)
    var kept: array<piece, PIECES>;
    var square_sum = piece();
    for (var i = 0u; i < PIECES; i++) {
        let at = lane + i * LANES;
        kept[i] = piece(x[base + min(at, ROW_PIECES - 1u)]);
        square_sum += select(piece(), kept[i] * kept[i], at < ROW_PIECES);
    }
    let scale = inverseSqrt(lanes_sum(thread, piece_sum(square_sum)) / f32(COLUMNS) + EPS);
    for (var i = 0u; i < PIECES; i++) {
        let at = lane + i * LANES;
        if row < ROWS && at < ROW_PIECES {
            out[base + at] = stored(kept[i] * scale * piece(gamma[at]));
        }
    }
    if row < ROWS && lane == 0u {
        rstd[row] = scale;
    }
}

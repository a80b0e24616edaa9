// Sums over the rows of strips, column by column. The definition is in core/workloads/src/ops/standard_scaler.rs.
//
// standard_scaler_sums     sums of the elements
// standard_scaler_squares  sums of the squared distances from the mean

#import lib/over_rows
#import lib/pieces{WIDTH}
#import standard_scaler/place

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> parts: array<piece>;
@group(0) @binding(2) var<storage, read> mean: array<piece>;

@compute @workgroup_size(THREADS)
fn standard_scaler_sums(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let flat = flat_group(group, groups);
    if flat >= PARTS * BLOCKS {
        return;
    }
    let place = place_of(flat, lane);
    var sums = piece();
    if place.piece_at < ROW_PIECES {
        for (var row = place.begin + lane / LANES; row < place.end; row += DOWN) {
            sums += piece(x[row * ROW_PIECES + place.piece_at]);
        }
    }
    sums = over_rows(lane, sums);
    if lane < LANES && place.piece_at < ROW_PIECES {
        parts[place.part * ROW_PIECES + place.piece_at] = sums;
    }
}

@compute @workgroup_size(THREADS)
fn standard_scaler_squares(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let flat = flat_group(group, groups);
    if flat >= PARTS * BLOCKS {
        return;
    }
    let place = place_of(flat, lane);
    var sums = piece();
    if place.piece_at < ROW_PIECES {
        let middle = mean[place.piece_at];
        for (var row = place.begin + lane / LANES; row < place.end; row += DOWN) {
            let far = piece(x[row * ROW_PIECES + place.piece_at]) - middle;
            sums += far * far;
        }
    }
    sums = over_rows(lane, sums);
    if lane < LANES && place.piece_at < ROW_PIECES {
        parts[place.part * ROW_PIECES + place.piece_at] = sums;
    }
}

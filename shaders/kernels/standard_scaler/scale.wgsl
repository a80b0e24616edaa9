// Columns scaled by their mean and factor, by strips: each thread keeps the numbers of its columns. The definition is in
// core/workloads/src/ops/standard_scaler.rs.

#import lib/pieces{WIDTH}
#import standard_scaler/place

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> mean: array<piece>;
@group(0) @binding(2) var<storage, read> variance: array<piece>;
@group(0) @binding(3) var<storage, read_write> out: array<stored>;

@compute @workgroup_size(THREADS)
fn standard_scaler_scale(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let flat = flat_group(group, groups);
    let place = place_of(flat, lane);
    if flat >= PARTS * BLOCKS || place.piece_at >= ROW_PIECES {
        return;
    }
    let middle = mean[place.piece_at];
    let factor = piece(1.0) / sqrt(variance[place.piece_at] + piece(EPS));
    for (var row = place.begin + lane / LANES; row < place.end; row += DOWN) {
        let at = row * ROW_PIECES + place.piece_at;
        out[at] = stored((piece(x[at]) - middle) * factor);
    }
}

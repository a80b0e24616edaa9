// Means of strips, and sums of squared distances from them, column by column. The definition is in
// core/workloads/src/ops/standard_scaler.rs.
//
// A thread loads eight rows at a time. Their mean, and the squared distances from it, are merged with those of its earlier rows.
// The number of rows of a thread follows from its place, and is the same for all columns. The threads of a column are merged at
// the end.

#import lib/pieces{WIDTH}
#import standard_scaler/place

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> parts: array<piece>;

const BLOCK: u32 = 8u;

var<workgroup> means: array<piece, THREADS>;
var<workgroup> square_sums: array<piece, THREADS>;

@compute @workgroup_size(THREADS)
fn standard_scaler_welford(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let flat = flat_group(group, groups);
    if flat >= PARTS * BLOCKS {
        return;
    }
    let place = place_of(flat, lane);
    var count = 0.0;
    var middle = piece();
    var around = piece();
    if place.piece_at < ROW_PIECES {
        for (var row = place.begin + lane / LANES; row < place.end; row += BLOCK * DOWN) {
            let here = min(BLOCK, (place.end - row + DOWN - 1u) / DOWN);
            var own = array<piece, BLOCK>();
            var sum = piece();
            // Constant bounds keep the block in registers.
            for (var i = 0u; i < BLOCK; i++) {
                if i < here {
                    own[i] = piece(x[(row + i * DOWN) * ROW_PIECES + place.piece_at]);
                    sum += own[i];
                }
            }
            let more = f32(here);
            let their = sum / more;
            var spread = piece();
            for (var i = 0u; i < BLOCK; i++) {
                if i < here {
                    spread += (own[i] - their) * (own[i] - their);
                }
            }
            let apart = their - middle;
            let all = count + more;
            middle += apart * (more / all);
            around += spread + apart * apart * (count * (more / all));
            count = all;
        }
    }
    means[lane] = middle;
    square_sums[lane] = around;
    workgroupBarrier();
    if lane >= LANES || place.piece_at >= ROW_PIECES {
        return;
    }
    for (var down = 1u; down < min(DOWN, place.end - place.begin); down++) {
        // Rows of that thread.
        let more = f32((place.end - place.begin - down + DOWN - 1u) / DOWN);
        let all = count + more;
        let apart = means[down * LANES + lane] - middle;
        middle += apart * (more / all);
        around += square_sums[down * LANES + lane] + apart * apart * (count * (more / all));
        count = all;
    }
    parts[2u * place.part * ROW_PIECES + place.piece_at] = middle;
    parts[(2u * place.part + 1u) * ROW_PIECES + place.piece_at] = around;
}

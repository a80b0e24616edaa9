// Sums of columns, in parts: workgroups of 32 pieces times DOWN threads; each thread sums rows at a fixed stride, and stores its
// part. The definition is in core/workloads/src/ops/linear.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> sums: array<piece>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;

var<workgroup> columns_partial: array<piece, 32u * DOWN>;

@compute @workgroup_size(32, DOWN)
fn linear_columns(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (ROW_PIECES + 31u) / 32u;
    let index = flat_group(group, groups);
    let part = index / across;
    let column = index % across * 32u + local.x;
    if part >= PARTS {
        return;
    }
    var sum = piece();
    if column < ROW_PIECES {
        for (var row = part * DOWN + local.y; row < ROWS; row += PARTS * DOWN) {
            sum += piece(x[row * ROW_PIECES + column]);
        }
    }
    columns_partial[local.y * 32u + local.x] = sum;
    workgroupBarrier();
    if local.y == 0u && column < ROW_PIECES {
        var total = piece();
        for (var i = 0u; i < DOWN; i++) {
            total += columns_partial[i * 32u + local.x];
        }
        sums[part * ROW_PIECES + column] = total;
    }
}

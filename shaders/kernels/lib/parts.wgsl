// Sums over partial results of workgroups: PARTS rows of PART_COLUMNS. A workgroup has 32 neighbouring columns times DOWN threads
// that take every DOWN-th part.

@group(0) @binding(0) var<storage, read> parts: array<f32>;

var<workgroup> parts_partial: array<f32, 32u * DOWN>;

// Sum of a column, for the first of its threads. All threads of the workgroup must call.
fn parts_sum(column: u32, local: vec3<u32>) -> f32 {
    var sum = 0.0;
    if column < PART_COLUMNS {
        for (var part = local.y; part < PARTS; part += DOWN) {
            sum += parts[part * PART_COLUMNS + column];
        }
    }
    parts_partial[local.y * 32u + local.x] = sum;
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < DOWN; i++) {
        total += parts_partial[i * 32u + local.x];
    }
    return total;
}

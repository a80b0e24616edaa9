// Index in its channel of each window's maximum, for its gradient: the first of the largest pixels, or the last NaN. The
// definition is in core/workloads/src/ops/pool/backward.rs.

#import lib/launch
#import lib/nan
#import pool/window

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> place: array<u32>;

@compute @workgroup_size(THREADS)
fn pool_place(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let own = split(at, OH, OW);
    let rows = window(own.y, H, OH, KH);
    let columns = window(own.z, W, OW, KW);
    var found = rows.x * W + columns.x;
    var largest = f32(x[position(own.x, rows.x, columns.x, own.w, H, W)]);
    for (var i = rows.x; i < rows.y; i++) {
        for (var j = columns.x; j < columns.y; j++) {
            let value = f32(x[position(own.x, i, j, own.w, H, W)]);
            if value > largest || is_nan(value) {
                largest = value;
                found = i * W + j;
            }
        }
    }
    place[at] = found;
}

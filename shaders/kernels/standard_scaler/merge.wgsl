// Mean and variance of each column from those of strips: workgroups of ACROSS neighbouring columns times DOWN threads that take
// every DOWN-th strip. The definition is in core/workloads/src/ops/standard_scaler.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read_write> mean: array<f32>;
@group(0) @binding(2) var<storage, read_write> variance: array<f32>;

// Number of rows, their mean, and the sum of squared distances from it.
struct Moments {
    count: f32,
    middle: f32,
    around: f32,
}

var<workgroup> of_threads: array<Moments, ACROSS * DOWN>;

fn merged(a: Moments, b: Moments) -> Moments {
    let all = a.count + b.count;
    if all == 0.0 {
        return a;
    }
    let apart = b.middle - a.middle;
    let share = b.count / all;
    return Moments(all, a.middle + apart * share, a.around + b.around + apart * apart * (a.count * share));
}

@compute @workgroup_size(ACROSS, DOWN)
fn standard_scaler_merge(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let column = flat_group(group, groups) * ACROSS + local.x;
    var mine = Moments();
    if column < COLUMNS {
        for (var part = local.y; part < PARTS; part += DOWN) {
            let rows = f32(min(STRIP, ROWS - part * STRIP));
            let at = 2u * part * COLUMNS + column;
            mine = merged(mine, Moments(rows, parts[at], parts[at + COLUMNS]));
        }
    }
    of_threads[local.y * ACROSS + local.x] = mine;
    workgroupBarrier();
    if local.y != 0u || column >= COLUMNS {
        return;
    }
    for (var down = 1u; down < DOWN; down++) {
        mine = merged(mine, of_threads[down * ACROSS + local.x]);
    }
    mean[column] = mine.middle;
    variance[column] = mine.around / f32(ROWS);
}

// Gradient of a table with one looked-up row per sample: the sum over the samples with that row. The definition is in
// core/workloads/src/ops/train_step.
//
// A workgroup owns LANES columns of one row of the table. Samples are sorted by category, so that those of a row are contiguous.
// DOWN threads per column take every DOWN-th of them, in the order of the samples, and the first adds their sums. No two threads
// write the same element: nothing is atomic, and the result does not depend on timing.

#import lib/launch

@group(0) @binding(0) var<storage, read> sorted: array<u32>;
@group(0) @binding(1) var<storage, read> order: array<u32>;
@group(0) @binding(2) var<storage, read> dx: array<elem>;
@group(0) @binding(3) var<storage, read_write> dtable: array<elem>;

#import lib/sorted

var<workgroup> sums: array<f32, LANES * DOWN>;

@compute @workgroup_size(LANES, DOWN)
fn train_step_scatter(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let owned = flat_group(group, groups);
    if owned >= CATEGORIES * STRETCHES {
        return;
    }
    let mine = owned / STRETCHES;
    let column = owned % STRETCHES * LANES + local.x;
    // Categories tend to have similar numbers of samples.
    let guess = min(ROWS, u32(f32(mine) * (f32(ROWS) / f32(CATEGORIES))));
    let first = first_at_least(mine, guess, ROWS);
    let end = first_at_least(mine + 1u, first, ROWS);
    var sum = 0.0;
    if column < COLUMNS {
        for (var at = first + local.y; at < end; at += DOWN) {
            sum += f32(dx[order[at] * COLUMNS + column]);
        }
    }
    sums[local.y * LANES + local.x] = sum;
    workgroupBarrier();
    if local.y == 0u && column < COLUMNS {
        var total = 0.0;
        for (var down = 0u; down < DOWN; down++) {
            total += sums[down * LANES + local.x];
        }
        dtable[mine * COLUMNS + column] = elem(total);
    }
}

// The gradient of a table of which every sample took one row: the sum of the gradients of the samples that took it. The
// definition is in core/src/suite/workloads/train_step.
//
// A workgroup owns THREADS columns of one row of the table. It goes through all samples, 32 for each of its threads at a time:
// a thread looks at its own and has a bit for each that took this row; then every thread adds its column of all of those, in
// one order. No two threads write the same element, so nothing is atomic, and the result does not depend on timing.

#import lib/launch

@group(0) @binding(0) var<storage, read> category: array<u32>;
@group(0) @binding(1) var<storage, read> dx: array<elem>;
@group(0) @binding(2) var<storage, read_write> dtable: array<elem>;

var<workgroup> takers: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn train_step_scatter(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let owned = flat_group(group, groups);
    if owned >= CATEGORIES * STRETCHES {
        return;
    }
    let mine = owned / STRETCHES;
    let column = owned % STRETCHES * THREADS + lane;
    var sum = 0.0;
    for (var first = 0u; first < ROWS; first += 32u * THREADS) {
        var bits = 0u;
        for (var i = 0u; i < 32u; i++) {
            // Neighbouring threads look at neighbouring samples.
            let row = first + i * THREADS + lane;
            if row < ROWS {
                bits |= select(0u, 1u << i, category[row] == mine);
            }
        }
        takers[lane] = bits;
        workgroupBarrier();
        for (var other = 0u; other < THREADS; other++) {
            for (var left = takers[other]; left != 0u; left &= left - 1u) {
                let row = first + firstTrailingBit(left) * THREADS + other;
                if column < COLUMNS {
                    sum += f32(dx[row * COLUMNS + column]);
                }
            }
        }
        // Nobody overwrites the bits that somebody still reads.
        workgroupBarrier();
    }
    if column < COLUMNS {
        dtable[mine * COLUMNS + column] = elem(sum);
    }
}

// Sums of rows whose sorted items span several stretches. The definition is in core/workloads/src/ops/embedding/stages.rs.
//
// A workgroup takes the last row of a stretch. If the row begins there and continues, the workgroup adds the stretch's part and
// those of the next stretches. DOWN threads per piece take every DOWN-th part, and the first adds their sums.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> sorted: array<u32>;
@group(0) @binding(1) var<storage, read> parts: array<piece>;
@group(0) @binding(2) var<storage, read_write> dtable: array<stored>;

#import lib/sorted

const DOWN: u32 = THREADS / LANES;

var<workgroup> sums: array<piece, THREADS>;

@compute @workgroup_size(THREADS)
fn embedding_join(
    @builtin(workgroup_id) block: vec3<u32>,
    @builtin(num_workgroups) blocks: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = flat_group(block, blocks);
    let stretch = min(group / ACROSS, STRETCHES - 1u);
    let first = stretch * STRETCH;
    let end = min(ITEMS, first + STRETCH);
    let row = sorted[end - 1u];
    // Whether the row begins in this stretch and continues.
    var mine = group < STRETCHES * ACROSS && end < ITEMS;
    if mine {
        mine = sorted[end] == row;
    }
    if mine && first > 0u {
        mine = sorted[first - 1u] != row;
    }
    let lane = thread % LANES;
    let down = thread / LANES;
    let at = group % ACROSS * LANES + lane;
    var sum = piece();
    if mine && at < PIECES {
        let last = (first_at_least(row + 1u, end, ITEMS) - 1u) / STRETCH;
        // Part 1 of the first stretch, part 0 of the others.
        for (var part = stretch + down; part <= last; part += DOWN) {
            sum += parts[(part * 2u + select(0u, 1u, part == stretch)) * PIECES + at];
        }
    }
    sums[thread] = sum;
    workgroupBarrier();
    if mine && down == 0u && at < PIECES {
        for (var other = 1u; other < DOWN; other++) {
            sum += sums[other * LANES + lane];
        }
        dtable[row * PIECES + at] = stored(sum);
    }
}

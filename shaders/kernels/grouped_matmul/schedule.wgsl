// Table of tiles of HEIGHT rows, by one workgroup: their number, then for each its group, its first row and the end of the group's
// rows. The definition is in core/workloads/src/ops/grouped_matmul.

#import grouped_matmul/groups
#import lib/before

alias summed = u32;

@group(0) @binding(0) var<storage, read> offsets: array<u32>;
@group(0) @binding(1) var<storage, read_write> tiles: array<vec4<u32>>;

// Groups per thread, neighbours.
const OWN: u32 = (GROUPS + THREADS - 1u) / THREADS;

// Tiles before each group, and of all.
var<workgroup> before: array<u32, GROUPS + 1u>;

fn tiles_of(group: u32) -> u32 {
    return (begin_of(group + 1u) - begin_of(group) + HEIGHT - 1u) / HEIGHT;
}

@compute @workgroup_size(THREADS)
fn grouped_matmul_schedule(@builtin(local_invocation_index) lane: u32) {
    var sum = 0u;
    for (var i = 0u; i < OWN; i++) {
        if lane * OWN + i < GROUPS {
            sum += tiles_of(lane * OWN + i);
        }
    }
    var start = sum_before(lane, sum);
    for (var i = 0u; i < OWN; i++) {
        let group = lane * OWN + i;
        if group < GROUPS {
            before[group] = start;
            start += tiles_of(group);
            if group == GROUPS - 1u {
                before[GROUPS] = start;
            }
        }
    }
    workgroupBarrier();
    let count = before[GROUPS];
    if lane == 0u {
        tiles[0] = vec4<u32>(count, 0u, 0u, 0u);
    }
    for (var tile = lane; tile < count; tile += THREADS) {
        // The last group with no more tiles before it.
        var group = 0u;
        var end = GROUPS;
        while group + 1u < end {
            let middle = group + (end - group) / 2u;
            if before[middle] <= tile {
                group = middle;
            } else {
                end = middle;
            }
        }
        let row = begin_of(group) + (tile - before[group]) * HEIGHT;
        tiles[1u + tile] = vec4<u32>(group, row, begin_of(group + 1u), 0u);
    }
}

// Hash embedding for rows sorted by group. The definition is in core/src/suite/workloads/hash_embedding.rs.
//
// owner   hash_embedding_owner    against `basic`: no atomics and no zero-fill. LANES threads own LANES·COLUMNS columns
//                                 of one group's output row, find the group's first row by a galloping search, sum in
//                                 registers in row order, and write every column once: the result does not depend on timing

#import lib/launch
#import lib/murmur

@group(0) @binding(0) var<storage, read> id: array<u32>;
@group(0) @binding(1) var<storage, read> group: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

// The first row whose group is at least `wanted`. Groups tend to be of like size, so the search starts where the row
// would lie if they were equal, and gallops from there: a few dependent loads in place of log2(ROWS).
fn first_row(wanted: u32) -> u32 {
    let guess = min(ROWS, u32(f32(wanted) * (f32(ROWS) / f32(GROUPS))));
    var low = guess;
    var high = guess;
    for (var step = 4u; low > 0u && group[low - 1u] >= wanted; step *= 2u) {
        high = low - 1u;
        low = high - min(high, step);
    }
    for (var step = 4u; high < ROWS && group[high] < wanted; step *= 2u) {
        low = high + 1u;
        high = low + min(ROWS - low, step);
    }
    while low < high {
        let middle = (low + high) / 2u;
        if group[middle] < wanted {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

@compute @workgroup_size(THREADS)
fn hash_embedding_owner(
    @builtin(workgroup_id) block: vec3<u32>,
    @builtin(num_workgroups) blocks: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let owner = flat_group(block, blocks) * (THREADS / LANES) + thread / LANES;
    if owner >= GROUPS * STRETCHES {
        return;
    }
    let mine = owner / STRETCHES;
    let first = owner % STRETCHES * LANES * COLUMNS + thread % LANES;
    var sums: array<f32, COLUMNS>;
    for (var row = first_row(mine); row < ROWS && group[row] == mine; row++) {
        let h = murmur_finalise(id[row]);
        let column = (h & 0x7fffffffu) % DIM;
        let term = select(weight[row], -weight[row], h >> 31u == 1u);
        for (var i = 0u; i < COLUMNS; i++) {
            sums[i] += select(0.0, term, column == first + i * LANES);
        }
    }
    for (var i = 0u; i < COLUMNS; i++) {
        let column = first + i * LANES;
        if column < DIM {
            out[mine * DIM + column] = sums[i];
        }
    }
}

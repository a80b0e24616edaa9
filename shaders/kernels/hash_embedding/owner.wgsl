// Hash embedding for rows sorted by group. The definition is in core/src/workloads/hash_embedding.rs.
//
// owner   hash_embedding_owner    against `basic`: no atomics and no zero-fill. LANES threads own LANES·COLUMNS columns
//                                 of one group's output row, find the group's rows by binary search, sum in registers
//                                 in row order, and write every column once: the result does not depend on timing

@group(0) @binding(0) var<storage, read> id: array<u32>;
@group(0) @binding(1) var<storage, read> group: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

// The first row whose group is at least `wanted`.
fn lower_bound(wanted: u32) -> u32 {
    var low = 0u;
    var high = ROWS;
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
    let end = lower_bound(mine + 1u);
    for (var row = lower_bound(mine); row < end; row++) {
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

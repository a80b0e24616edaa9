// Hash embedding for rows sorted by group. The definition is in core/workloads/src/ops/hash_embedding.
//
// hash_embedding_owner  LANES threads own LANES·COLUMNS columns of one group's output row
//
// They find the group's first row by a galloping search, sum in registers in row order, with four rows in flight, and write every
// column once. Unlike `basic` there are no atomics and no pass for zeros, and the result does not depend on timing.

#import lib/launch
#import lib/murmur
#import lib/sorted

@group(0) @binding(0) var<storage, read> id: array<u32>;
@group(0) @binding(1) var<storage, read> sorted: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

// Column of a row of another group.
const NONE: u32 = 0xffffffffu;

// Term of a row, and its column.
struct Term {
    column: u32,
    value: f32,
}

fn term(row: u32, mine: u32) -> Term {
    let at = min(row, ROWS - 1u);
    let h = murmur_finalise(id[at]);
    let counts = row < ROWS && sorted[at] == mine;
    return Term(select(NONE, (h & 0x7fffffffu) % DIM, counts), select(weight[at], -weight[at], h >> 31u == 1u));
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
    // Groups tend to have similar sizes: the search starts at the row for equal groups.
    let guess = min(ROWS, u32(f32(mine) * (f32(ROWS) / f32(GROUPS))));
    for (var row = first_at_least(mine, guess, ROWS); row < ROWS && sorted[row] == mine; row += 4u) {
        let x = term(row, mine);
        let y = term(row + 1u, mine);
        let z = term(row + 2u, mine);
        let w = term(row + 3u, mine);
        for (var i = 0u; i < COLUMNS; i++) {
            let column = first + i * LANES;
            sums[i] += select(0.0, x.value, x.column == column);
            sums[i] += select(0.0, y.value, y.column == column);
            sums[i] += select(0.0, z.value, z.column == column);
            sums[i] += select(0.0, w.value, w.column == column);
        }
    }
    for (var i = 0u; i < COLUMNS; i++) {
        let column = first + i * LANES;
        if column < DIM {
            out[mine * DIM + column] = sums[i];
        }
    }
}

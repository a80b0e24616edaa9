// Hash embedding for rows sorted by group, in two stages; the second is embedding/join. The definition is in
// core/workloads/src/ops/hash_embedding.
//
// hash_embedding_chunked  LANES threads process a stretch of rows, four in flight, and keep the current group's sums in
//                         registers, a piece of columns each
//
// A group within the stretch is stored. Groups without rows are stored as zeros. The sums of a group that began in an earlier
// stretch go to part 0, those of a group that continues in the next to part 1. Unlike `owner` there is no search, and long groups
// are divided among threads. The result does not depend on timing.

#import lib/launch
#import lib/murmur
#import lib/pieces{WIDTH}

#if WIDTH == 1
alias numbers = u32;
const PLACES: u32 = 0u;
#else
alias numbers = vec4<u32>;
const PLACES: vec4<u32> = vec4<u32>(0u, 1u, 2u, 3u);
#endif

@group(0) @binding(0) var<storage, read> id: array<u32>;
@group(0) @binding(1) var<storage, read> sorted: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<stored>;
@group(0) @binding(4) var<storage, read_write> parts: array<piece>;

// State of a thread: its piece, its stretch, the group and its sums, and whether the group's first row lies in an earlier
// stretch.
struct Running {
    at: u32,
    stretch: u32,
    group: u32,
    sum: piece,
    entered: bool,
}

// Term of a row in piece `at` of its group.
fn term(row: u32, at: u32) -> piece {
    let h = murmur_finalise(id[row]);
    let value = select(weight[row], -weight[row], h >> 31u == 1u);
    let columns = numbers(at * WIDTH) + PLACES;
    return select(piece(), piece(value), columns == numbers((h & 0x7fffffffu) % DIM));
}

// Stores zeros for groups without rows.
fn skip(first: u32, end: u32, at: u32) {
    for (var none = first; none < end; none++) {
        out[none * PIECES + at] = stored();
    }
}

// Takes the next row in order, with its group.
fn take(run: ptr<function, Running>, group: u32, more: piece) {
    if group != (*run).group {
        if (*run).entered {
            parts[(*run).stretch * 2u * PIECES + (*run).at] = (*run).sum;
        } else {
            out[(*run).group * PIECES + (*run).at] = stored((*run).sum);
        }
        skip((*run).group + 1u, group, (*run).at);
        (*run).entered = false;
        (*run).sum = piece();
        (*run).group = group;
    }
    (*run).sum += more;
}

@compute @workgroup_size(THREADS)
fn hash_embedding_chunked(
    @builtin(workgroup_id) block: vec3<u32>,
    @builtin(num_workgroups) blocks: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let team = flat_group(block, blocks) * (THREADS / LANES) + thread / LANES;
    if team >= STRETCHES * ACROSS {
        return;
    }
    let stretch = team / ACROSS;
    let at = team % ACROSS * LANES + thread % LANES;
    if at >= PIECES {
        return;
    }
    let first = stretch * STRETCH;
    let end = min(ITEMS, first + STRETCH);
    var run = Running(at, stretch, sorted[first], piece(), false);
    // Groups from here on have not been written.
    var open = 0u;
    if first > 0u {
        open = sorted[first - 1u] + 1u;
        run.entered = open == run.group + 1u;
    }
    skip(open, run.group, at);
    for (var row = first; row < end; row += 4u) {
        let rows = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(end - 1u));
        let groups = vec4<u32>(sorted[rows.x], sorted[rows.y], sorted[rows.z], sorted[rows.w]);
        let term_x = term(rows.x, at);
        let term_y = term(rows.y, at);
        let term_z = term(rows.z, at);
        let term_w = term(rows.w, at);
        take(&run, groups.x, term_x);
        if row + 1u < end {
            take(&run, groups.y, term_y);
        }
        if row + 2u < end {
            take(&run, groups.z, term_z);
        }
        if row + 3u < end {
            take(&run, groups.w, term_w);
        }
    }
    var goes_on = false;
    if end < ITEMS {
        goes_on = sorted[end] == run.group;
    }
    if run.entered {
        parts[stretch * 2u * PIECES + at] = run.sum;
    } else if goes_on {
        parts[(stretch * 2u + 1u) * PIECES + at] = run.sum;
    } else {
        out[run.group * PIECES + at] = stored(run.sum);
    }
    if end == ITEMS {
        skip(run.group + 1u, GROUPS, at);
    }
}

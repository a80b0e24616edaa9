// Update of states by one token in pieces. The definition is in core/workloads/src/ops/ssm_update.rs.
//
// LANES neighbouring threads are a team with ROWS rows of a head. A thread reads a piece of each row before it uses the first, and
// pieces of B and C once for all of them. A head has PARTS teams; the last may have fewer rows.

#import lib/launch
#import ssm_update/token

const TEAMS: u32 = THREADS / LANES;
const ALL_TEAMS: u32 = SEQUENCES * HEADS * PARTS;

// Sums of all threads, row by row.
var<workgroup> sums_of: array<f32, THREADS * ROWS>;

@compute @workgroup_size(THREADS)
fn ssm_update_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first_team = flat_group(group, groups) * TEAMS;
    let team = first_team + thread / LANES;
    let lane = thread % LANES;
    var sums: array<f32, ROWS>;
    if team < ALL_TEAMS {
        let of_head = team / PARTS;
        let first = team % PARTS * ROWS;
        let step = step_of(of_head);
        let decay = exp(step * heads[of_head % HEADS]);
        let shared_at = first_piece(of_head);
        // Rows outside the head repeat its last one, and are not stored.
        var taken = array<f32, ROWS>();
        for (var r = 0u; r < ROWS; r++) {
            taken[r] = step * f32(x[of_head * D + min(first + r, D - 1u)]);
        }
        for (var i = lane; i < PIECES; i += LANES) {
            var before = array<piece, ROWS>();
            for (var r = 0u; r < ROWS; r++) {
                before[r] = state[(of_head * D + min(first + r, D - 1u)) * PIECES + i];
            }
            let right = piece(b[shared_at + i]);
            let left = piece(c[shared_at + i]);
            for (var r = 0u; r < ROWS; r++) {
                let next = before[r] * decay + right * taken[r];
                if first + r < D {
                    state[(of_head * D + first + r) * PIECES + i] = next;
                }
                sums[r] += piece_sum(left * next);
            }
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        sums_of[(thread / LANES * ROWS + r) * LANES + lane] = sums[r];
    }
    workgroupBarrier();
    for (var e = thread; e < TEAMS * ROWS; e += THREADS) {
        let at = first_team + e / ROWS;
        let row = at % PARTS * ROWS + e % ROWS;
        if at < ALL_TEAMS && row < D {
            var sum = 0.0;
            // Threads begin at different banks of memory.
            for (var i = 0u; i < LANES; i++) {
                sum += sums_of[e * LANES + (e + i) % LANES];
            }
            give(at / PARTS * D + row, sum);
        }
    }
}

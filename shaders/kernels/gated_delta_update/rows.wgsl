// Update of states by one token in pieces. The definition is in core/workloads/src/ops/gated_delta_update.rs.
//
// gated_delta_update_rows  a workgroup per head and LANES pieces of its rows; DOWN threads have ROWS rows of a piece each
//
// A thread reads its rows before it uses the first. The result follows from sums over the state before the token:
// out = α · (Sᵀq) + (k · q) · δ.

#import lib/launch
#import gated_delta_update/token

const DOWN: u32 = THREADS / LANES;

// Sums of all threads: rows by the key and by the query.
var<workgroup> by_keys: array<piece, THREADS>;
var<workgroup> by_queries: array<piece, THREADS>;
// Products of key and query over a thread's rows.
var<workgroup> agreements: array<f32, DOWN>;

@compute @workgroup_size(THREADS)
fn gated_delta_update_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    let of_head = index / PARTS;
    if of_head >= ALL_HEADS {
        return;
    }
    let lane = thread % LANES;
    let down = thread / LANES;
    let at = index % PARTS * LANES + lane;
    var before: array<piece, ROWS>;
    var keys: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        if r * DOWN + down < DK && at < PIECES {
            before[r] = state[(of_head * DK + r * DOWN + down) * PIECES + at];
        }
    }
    var by_key = piece();
    var by_query = piece();
    var agreement = 0.0;
    for (var r = 0u; r < ROWS; r++) {
        if r * DOWN + down < DK {
            let key = f32(k[of_head * DK + r * DOWN + down]);
            let query = f32(q[of_head * DK + r * DOWN + down]);
            keys[r] = key;
            by_key += key * before[r];
            by_query += query * before[r];
            agreement += key * query;
        }
    }
    by_keys[thread] = by_key;
    by_queries[thread] = by_query;
    if lane == 0u {
        agreements[down] = agreement;
    }
    workgroupBarrier();
    by_key = piece();
    by_query = piece();
    agreement = 0.0;
    for (var other = 0u; other < DOWN; other++) {
        by_key += by_keys[other * LANES + lane];
        by_query += by_queries[other * LANES + lane];
        agreement += agreements[other];
    }
    if at >= PIECES {
        return;
    }
    let decay = exp(g[of_head]);
    let delta = f32(beta[of_head]) * (piece(v[of_head * PIECES + at]) - decay * by_key);
    for (var r = 0u; r < ROWS; r++) {
        if r * DOWN + down < DK {
            state[(of_head * DK + r * DOWN + down) * PIECES + at] = decay * before[r] + keys[r] * delta;
        }
    }
    if down == 0u {
        out[of_head * PIECES + at] = stored(SCALE * (decay * by_query + agreement * delta));
    }
}

// Update of states by one token, a column of a state per thread. The definition is in core/workloads/src/ops/gated_delta_update.rs.

#import lib/launch
#import gated_delta_update/token

@compute @workgroup_size(THREADS)
fn gated_delta_update_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups) * THREADS + thread;
    let of_head = index / PIECES;
    if of_head >= ALL_HEADS {
        return;
    }
    let first = of_head * DK * PIECES + index % PIECES;
    let decay = exp(g[of_head]);
    var known = piece();
    for (var row = 0u; row < DK; row++) {
        known += f32(k[of_head * DK + row]) * state[first + row * PIECES];
    }
    let delta = f32(beta[of_head]) * (piece(v[index]) - decay * known);
    var sum = piece();
    for (var row = 0u; row < DK; row++) {
        let next = decay * state[first + row * PIECES] + f32(k[of_head * DK + row]) * delta;
        state[first + row * PIECES] = next;
        sum += f32(q[of_head * DK + row]) * next;
    }
    out[index] = stored(SCALE * sum);
}

// Update of states by one token, a row of a state per thread. The definition is in core/workloads/src/ops/ssm_update.rs.

#import lib/launch
#import ssm_update/token

@compute @workgroup_size(THREADS)
fn ssm_update_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups) * THREADS + thread;
    if row >= ALL_ROWS {
        return;
    }
    let of_head = row / D;
    let step = step_of(of_head);
    let decay = exp(step * heads[of_head % HEADS]);
    let taken = step * f32(x[row]);
    let shared_at = first_piece(of_head);
    var sum = 0.0;
    for (var i = 0u; i < PIECES; i++) {
        let next = fma(state[row * PIECES + i], decay, taken * f32(b[shared_at + i]));
        state[row * PIECES + i] = next;
        sum = fma(f32(c[shared_at + i]), next, sum);
    }
    give(row, sum);
}

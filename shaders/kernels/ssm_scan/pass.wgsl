// States before each chunk, in place of those after it. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_pass  a piece of a head's state per thread, chunk by chunk; the last state has its rows along the head dim

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> totals: array<f32>;
@group(0) @binding(1) var<storage, read_write> states: array<piece>;
@group(0) @binding(2) var<storage, read_write> state: array<f32>;

const PIECES: u32 = N * D / WIDTH;

@compute @workgroup_size(THREADS)
fn ssm_scan_pass(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups) * THREADS + thread;
    let of_head = index / PIECES;
    if of_head >= SEQUENCES * HEADS {
        return;
    }
    var running = piece();
    for (var chunk = 0u; chunk < CHUNKS; chunk++) {
        let at = (of_head / HEADS * CHUNKS + chunk) * HEADS + of_head % HEADS;
        let own = states[at * PIECES + index % PIECES];
        states[at * PIECES + index % PIECES] = running;
        running = running * exp(totals[at]) + own;
    }
    let n = index % PIECES * WIDTH / D;
    let d = index % PIECES * WIDTH % D;
    let last = (of_head * D + d) * N + n;
#if WIDTH == 4
    state[last] = running.x;
    state[last + N] = running.y;
    state[last + 2u * N] = running.z;
    state[last + 3u * N] = running.w;
#else
    state[last] = running;
#endif
}

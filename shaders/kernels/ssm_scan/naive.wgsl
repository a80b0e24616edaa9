// Selective state-space model, a row of a state per thread, token by token. The definition is in core/workloads/src/ops/ssm_scan.

#import lib/launch
#import lib/softplus

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> dt: array<elem>;
@group(0) @binding(2) var<storage, read> b: array<elem>;
@group(0) @binding(3) var<storage, read> c: array<elem>;
@group(0) @binding(4) var<storage, read> heads: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;
@group(0) @binding(6) var<storage, read_write> state: array<f32>;

@compute @workgroup_size(THREADS)
fn ssm_scan_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups) * THREADS + thread;
    if row >= SEQUENCES * HEADS * D {
        return;
    }
    let sequence = row / D / HEADS;
    let head = row / D % HEADS;
    for (var j = 0u; j < N; j++) {
        state[row * N + j] = 0.0;
    }
    for (var t = 0u; t < S; t++) {
        let token = sequence * S + t;
        let step = softplus(f32(dt[token * HEADS + head]) + heads[2u * HEADS + head]);
        let decay = exp(step * heads[head]);
        let at = (token * HEADS + head) * D + row % D;
        let input = f32(x[at]);
        let shared_at = (token * GROUPS + head / (HEADS / GROUPS)) * N;
        var sum = heads[HEADS + head] * input;
        for (var j = 0u; j < N; j++) {
            let next = fma(state[row * N + j], decay, step * input * f32(b[shared_at + j]));
            state[row * N + j] = next;
            sum = fma(f32(c[shared_at + j]), next, sum);
        }
        out[at] = elem(sum);
    }
}

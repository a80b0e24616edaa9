// Gated delta rule, a column of a state per thread, token by token. The definition is in core/workloads/src/ops/gated_delta.

#import lib/launch

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read> g: array<f32>;
@group(0) @binding(4) var<storage, read> beta: array<elem>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;
@group(0) @binding(6) var<storage, read_write> state: array<f32>;

@compute @workgroup_size(THREADS)
fn gated_delta_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups) * THREADS + thread;
    if index >= SEQUENCES * HEADS * DV {
        return;
    }
    let sequence = index / DV / HEADS;
    let head = index / DV % HEADS;
    let column = index % DV;
    let first = index / DV * DK * DV + column;
    for (var row = 0u; row < DK; row++) {
        state[first + row * DV] = 0.0;
    }
    for (var t = 0u; t < S; t++) {
        let token = (sequence * S + t) * HEADS + head;
        let decay = exp(g[token]);
        var known = 0.0;
        for (var row = 0u; row < DK; row++) {
            known = fma(f32(k[token * DK + row]), state[first + row * DV], known);
        }
        let delta = f32(beta[token]) * (f32(v[token * DV + column]) - decay * known);
        var sum = 0.0;
        for (var row = 0u; row < DK; row++) {
            let next = fma(f32(k[token * DK + row]), delta, decay * state[first + row * DV]);
            state[first + row * DV] = next;
            sum = fma(f32(q[token * DK + row]), next, sum);
        }
        out[token * DV + column] = elem(SCALE * sum);
    }
}

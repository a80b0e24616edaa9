// Gradient of one set of embeddings from the slopes and the other set, one element per thread. The definition is in
// core/workloads/src/ops/loss_sigmoid.

#import lib/launch

@group(0) @binding(0) var<storage, read> slopes: array<f32>;
@group(0) @binding(1) var<storage, read> temperature: array<f32>;
@group(0) @binding(2) var<storage, read> other: array<elem>;
@group(0) @binding(3) var<storage, read_write> gradient: array<elem>;

@compute @workgroup_size(ROW_THREADS)
fn loss_sigmoid_naive_gradient(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * ROW_THREADS + lane;
    if at >= N * D {
        return;
    }
    let row = at / D;
    var sum = 0.0;
    for (var term = 0u; term < N; term++) {
        sum += slopes[select(row * N + term, term * N + row, BY_COLUMNS)] * f32(other[term * D + at % D]);
    }
    gradient[at] = elem(temperature[0] * sum);
}

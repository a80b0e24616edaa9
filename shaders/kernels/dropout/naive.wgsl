// Dropout, one element per thread. The definition is in core/workloads/src/ops/dropout.

#import lib/launch
#import lib/philox

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> seed: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(THREADS)
fn dropout_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let words = philox(vec4<u32>(at / 4u, 0u, 0u, 0u), vec2<u32>(seed[0], seed[1]));
    out[at] = elem(select(0.0, FACTOR * f32(x[at]), words[at % 4u] >= THRESHOLD));
}

// Codes of 8 bits with scales, a group per thread. The definition is in core/workloads/src/ops/quantize.rs.

#import lib/launch
#import quantize/codes

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> codes: array<u32>;
@group(0) @binding(2) var<storage, read_write> scale: array<f32>;

fn four_at(at: u32) -> vec4<f32> {
    return vec4<f32>(f32(x[at]), f32(x[at + 1u]), f32(x[at + 2u]), f32(x[at + 3u]));
}

@compute @workgroup_size(THREADS)
fn quantize_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= ROWS * GROUPS {
        return;
    }
    let first = index % GROUPS * G;
    let start = index / GROUPS * C + first;
    let count = min(G, C - first);
    var largest = 0u;
    for (var i = 0u; i < count; i += 4u) {
        largest = max(largest, largest_of(four_at(start + i)));
    }
    let found = scale_of(largest);
    let inverse = inverse_of(largest, found);
    scale[index] = found;
    for (var i = 0u; i < count; i += 4u) {
        codes[(start + i) / 4u] = word_of(four_at(start + i), largest, inverse);
    }
}

// Codes of 8 bits with scales: LANES neighbouring threads share a group and hold its numbers. The definition is in
// core/workloads/src/ops/quantize.rs.

#import lib/launch
#import quantize/codes

@group(0) @binding(0) var<storage, read> x: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read_write> codes: array<u32>;
@group(0) @binding(2) var<storage, read_write> scale: array<f32>;

const IN_WORKGROUP: u32 = THREADS / LANES;

// Bits of the largest magnitude of each group.
var<workgroup> largest: array<atomic<u32>, IN_WORKGROUP>;

@compute @workgroup_size(THREADS)
fn quantize_held(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lane = thread % LANES;
    let slot = thread / LANES;
    let index = flat_group(group, groups) * IN_WORKGROUP + slot;
    if lane == 0u {
        atomicStore(&largest[slot], 0u);
    }
    workgroupBarrier();
    // Vectors of a row, and of the group.
    let first = index % GROUPS * (G / 4u);
    let start = index / GROUPS * (C / 4u) + first;
    let count = select(0u, min(G / 4u, C / 4u - first), index < ROWS * GROUPS);
    var numbers: array<vec4<f32>, HELD>;
    var mine = 0u;
    for (var i = 0u; i < HELD; i++) {
        let at = lane + i * LANES;
        numbers[i] = vec4<f32>();
        if at < count {
            numbers[i] = vec4<f32>(x[start + at]);
        }
        mine = max(mine, largest_of(numbers[i]));
    }
    atomicMax(&largest[slot], mine);
    workgroupBarrier();
    let top = atomicLoad(&largest[slot]);
    let found = scale_of(top);
    let inverse = inverse_of(top, found);
    if lane == 0u && count > 0u {
        scale[index] = found;
    }
    for (var i = 0u; i < HELD; i++) {
        let at = lane + i * LANES;
        if at < count {
            codes[start + at] = word_of(numbers[i], top, inverse);
        }
    }
}

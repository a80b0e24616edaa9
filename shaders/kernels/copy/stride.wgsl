// Copy by a grid-stride loop: a fixed number of workgroups, and four 16-byte accesses in flight per thread. The definition is in
// core/workloads/src/ops/copy.rs. For the last vector see `vec4`.

#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(THREADS)
fn copy_stride(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Padding workgroups of a rectangular launch would copy the array's beginning again.
    let first = flat_group(group, groups) * THREADS + lane;
    if first >= STRIDE {
        return;
    }
    var index = first;
    for (; index + 3u * STRIDE < VECTORS; index += 4u * STRIDE) {
        let v0 = x[index];
        let v1 = x[index + STRIDE];
        let v2 = x[index + 2u * STRIDE];
        let v3 = x[index + 3u * STRIDE];
        out[index] = v0;
        out[index + STRIDE] = v1;
        out[index + 2u * STRIDE] = v2;
        out[index + 3u * STRIDE] = v3;
    }
    for (; index < VECTORS; index += STRIDE) {
        out[index] = x[index];
    }
}

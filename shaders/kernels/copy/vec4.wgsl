// Copy, 16 bytes per thread. The definition is in core/workloads/src/ops/copy.rs.
//
// Elements are moved as bits. Buffers are whole vectors long, so the last vector needs no bounds check: bytes past the last
// element are copied and never read.

#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(THREADS)
fn copy_vec4(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index < VECTORS {
        out[index] = x[index];
    }
}

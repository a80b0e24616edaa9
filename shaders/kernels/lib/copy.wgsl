// Copy of a buffer, sixteen bytes per thread. Buffers are whole vectors long.

#import lib/launch

@group(0) @binding(0) var<storage, read> from_here: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> to: array<vec4<u32>>;

@compute @workgroup_size(256)
fn copy(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * 256u + lane;
    if index < arrayLength(&to) {
        to[index] = from_here[index];
    }
}

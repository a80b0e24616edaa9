// Sums of f32 to the element type, in pieces. The definition is in core/workloads/src/ops/embedding.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> sums: array<piece>;
@group(0) @binding(1) var<storage, read_write> result: array<stored>;

@compute @workgroup_size(THREADS)
fn embedding_narrow(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        result[at] = stored(sums[at]);
    }
}

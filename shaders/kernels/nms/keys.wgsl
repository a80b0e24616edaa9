// Keys of 30 bits that fall with scores from zero to below two. The definition is in core/workloads/src/ops/nms.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> scores: array<f32>;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;

@compute @workgroup_size(THREADS)
fn nms_keys(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = flat_group(group, groups) * THREADS + thread;
    if i < N {
        keys[i] = 0x3fffffffu - min(bitcast<u32>(max(scores[i], 0.0)), 0x3fffffffu);
    }
}

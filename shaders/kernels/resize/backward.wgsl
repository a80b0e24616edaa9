// Gradient of resized images, a piece of neighbouring channels per thread (in nchw one element). The definition is in
// core/workloads/src/ops/resize/backward.rs.

#import lib/launch
#import lib/pieces{WIDTH}
#import resize/of_pixel

@group(0) @binding(1) var<storage, read_write> dx: array<stored>;

@compute @workgroup_size(THREADS)
fn resize_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let own = split(at, H, W);
    dx[at] = stored(of_pixel(own.x, own.y, own.z, own.w));
}

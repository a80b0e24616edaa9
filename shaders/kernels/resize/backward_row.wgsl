// Gradient of resized images in nchw, four neighbours of a row per thread. The definition is in core/workloads/src/ops/resize/backward.rs.

#import lib/launch
#import lib/pieces1
#import resize/of_pixel

@group(0) @binding(1) var<storage, read_write> dx: array<vec4<elem>>;

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
    let own = split(at * WIDTH, H, W);
    var four = vec4<f32>();
    for (var i = 0u; i < WIDTH; i++) {
        four[i] = of_pixel(own.x, own.y, own.z + i, 0u);
    }
    dx[at] = vec4<elem>(four);
}

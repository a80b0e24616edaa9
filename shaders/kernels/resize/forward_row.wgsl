// Resized images in nchw, four neighbours of a row per thread. The definition is in core/workloads/src/ops/resize/mod.rs.

#import lib/launch
#import lib/pieces1
#import resize/of_output

@group(0) @binding(1) var<storage, read_write> out: array<vec4<elem>>;

@compute @workgroup_size(THREADS)
fn resize_forward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let own = split(at * WIDTH, OH, OW);
    var four = vec4<f32>();
    for (var i = 0u; i < WIDTH; i++) {
        four[i] = of_output(own.x, own.y, own.z + i, 0u);
    }
    out[at] = vec4<elem>(four);
}

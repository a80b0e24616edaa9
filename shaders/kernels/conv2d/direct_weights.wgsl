// Gradient of the filters, one weight per thread, summed over all images and positions. The definition is in
// core/workloads/src/ops/conv2d/backward.rs.

#import conv2d/common
#import lib/launch

@group(0) @binding(0) var<storage, read> source: array<elem>;
@group(0) @binding(1) var<storage, read> gradient: array<elem>;
@group(0) @binding(2) var<storage, read_write> weights: array<elem>;

@compute @workgroup_size(THREADS)
fn conv2d_direct_weights(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(workgroup, workgroups) * THREADS + lane;
    if index >= GROUPS * TO_C * FROM_C * TAPS {
        return;
    }
    var c = index / TAPS % FROM_C;
    var tap = index % TAPS;
    if LAST {
        c = index % FROM_C;
        tap = index / FROM_C % TAPS;
    }
    let m = index / (FROM_C * TAPS);
    let group = m / TO_C;
    let by = tap_at(tap) * DILATION;
    var sum = 0.0;
    for (var position = 0u; position < TO; position++) {
        let at = first_under(position) + by;
        if any(at >= vec3<u32>(FROM_D, FROM_H, FROM_W)) {
            continue;
        }
        let under = (at.x * FROM_H + at.y) * FROM_W + at.z;
        for (var image = 0u; image < IMAGES; image++) {
            let pixel = f32(source[source_at(group, c, image, under)]);
            sum += pixel * f32(gradient[result_at(group, m % TO_C, image, position)]);
        }
    }
    weights[index] = elem(sum);
}

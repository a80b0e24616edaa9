// Convolution, one element of the result per thread, every factor read from device memory. The definition is in
// core/workloads/src/ops/conv2d.

#import conv2d/common
#import conv2d/epilogue
#import lib/launch

@group(0) @binding(0) var<storage, read> source: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read_write> result: array<elem>;
#if BIAS
@group(0) @binding(3) var<storage, read> bias: array<elem>;
#endif
#if NORMALISED
@group(0) @binding(4) var<storage, read> mean: array<f32>;
@group(0) @binding(5) var<storage, read> variance: array<f32>;
@group(0) @binding(6) var<storage, read> gamma: array<elem>;
@group(0) @binding(7) var<storage, read> beta: array<elem>;
#endif

@compute @workgroup_size(THREADS)
fn conv2d_direct(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(workgroup, workgroups) * THREADS + lane;
    if index >= IMAGES * GROUPS * TO_C * TO {
        return;
    }
    var image = index / (GROUPS * TO_C * TO);
    var channel = index / TO % (GROUPS * TO_C);
    var position = index % TO;
    if LAST {
        channel = index % (GROUPS * TO_C);
        position = index / (GROUPS * TO_C) % TO;
    }
    let group = channel / TO_C;
    let first = first_under(position);
    let extents = vec3<u32>(FROM_D, FROM_H, FROM_W);
    var sum = 0.0;
    for (var tap = 0u; tap < TAPS; tap++) {
        var at = first;
        if BACK {
            at -= tap_at(tap) * DILATION;
            if any(at % vec3<u32>(STRIDE) != vec3<u32>()) {
                continue;
            }
            at /= vec3<u32>(STRIDE);
        } else {
            at += tap_at(tap) * DILATION;
        }
        if any(at >= extents) {
            continue;
        }
        let under = (at.x * FROM_H + at.y) * FROM_W + at.z;
        for (var other = 0u; other < FROM_C; other++) {
            let pixel = f32(source[source_at(group, other, image, under)]);
            sum += pixel * f32(w[weight_at(group, channel % TO_C, other, tap)]);
        }
    }
    result[index] = elem(epilogue(channel, sum));
}

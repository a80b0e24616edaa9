// Deformable convolution, one element of the result per thread. The definition is in core/workloads/src/ops/deform_conv2d.rs.

#import deform_conv2d/places
#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> offset: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> mask: array<elem>;
@group(0) @binding(3) var<storage, read> w: array<elem>;
@group(0) @binding(4) var<storage, read> bias: array<elem>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(THREADS)
fn deform_conv2d_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let row = at / M;
    let to = at % M;
    var sum = f32(bias[to]);
    for (var tap = 0u; tap < K * K; tap++) {
        let number = row * (K * K) + tap;
        let own = beside(offset[number], row, tap);
        let share = f32(mask[number]);
        let weights = (to * (K * K) + tap) * C;
        for (var channel = 0u; channel < C; channel++) {
            var value = 0.0;
            for (var i = 0u; i < 4u; i++) {
                if own.inside[i] {
                    value = fma(own.weights[i], f32(x[own.pixels[i] * C + channel]), value);
                }
            }
            sum = fma(share * value, f32(w[weights + channel]), sum);
        }
    }
    out[at] = elem(sum);
}

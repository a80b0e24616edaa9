// Depthwise 3-D convolution, forward, one output element per thread, every tap read from device memory. The definition is in
// core/workloads/src/ops/depthwise_conv3d.

#import depthwise_conv3d/common
#import lib/launch
#import lib/nan

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
#if BIASED
@group(0) @binding(3) var<storage, read> bias: array<elem>;
#endif

@compute @workgroup_size(THREADS)
fn depthwise_conv3d_direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= N * C * OD * OH * OW {
        return;
    }
    let here = place_of(index, OD, OH, OW);
    var sum = 0.0;
    for (var i = 0u; i < KD; i++) {
        // Unsigned: coordinates before the image wrap around and exceed its extent.
        let z = here.z * SD + i * LD - PD;
        if z >= ID {
            continue;
        }
        for (var j = 0u; j < KH; j++) {
            let y = here.y * SH + j * LH - PH;
            if y >= IH {
                continue;
            }
            for (var k = 0u; k < KW; k++) {
                let at = here.at * SW + k * LW - PW;
                if at < IW {
                    sum += f32(x[image_index(here.n, here.c, z, y, at)]) * f32(w[tap_index(here.c, i, j, k)]);
                }
            }
        }
    }
#if BIASED
    sum += f32(bias[here.c]);
#endif
    if RELU {
        sum = relu(sum);
    }
    out[index] = elem(sum);
}

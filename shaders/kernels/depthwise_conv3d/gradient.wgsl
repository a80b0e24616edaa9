// Gradient of the image of a depthwise convolution, one element per thread, every tap's gradient read from device memory. The
// definition is in core/workloads/src/ops/depthwise_conv3d/backward.rs.

#import depthwise_conv3d/common
#import lib/launch

@group(0) @binding(0) var<storage, read> dout: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read_write> dx: array<elem>;

@compute @workgroup_size(THREADS)
fn depthwise_gradient(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= N * C * ID * IH * IW {
        return;
    }
    let here = place_of(index, ID, IH, IW);
    var sum = 0.0;
    for (var i = 0u; i < KD; i++) {
        // Unsigned: coordinates before the result wrap around and exceed its extent.
        let z = here.z + PD - i * LD;
        if z % SD != 0u || z / SD >= OD {
            continue;
        }
        for (var j = 0u; j < KH; j++) {
            let y = here.y + PH - j * LH;
            if y % SH != 0u || y / SH >= OH {
                continue;
            }
            for (var k = 0u; k < KW; k++) {
                let at = here.at + PW - k * LW;
                if at % SW == 0u && at / SW < OW {
                    let gradient = f32(dout[out_index(here.n, here.c, z / SD, y / SH, at / SW)]);
                    sum += gradient * f32(w[tap_index(here.c, i, j, k)]);
                }
            }
        }
    }
    dx[index] = elem(sum);
}

// Depthwise 2-D convolution, forward, one output element per thread, every tap read from device memory. The definition is in
// core/workloads/src/ops/depthwise_conv2d.rs.

#import depthwise_conv2d/common
#import lib/launch

@compute @workgroup_size(THREADS)
fn depthwise_conv2d_direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= N * C * OH * OW {
        return;
    }
    var n = index / (C * OH * OW);
    var c = index / (OH * OW) % C;
    var row = index / OW % OH;
    var col = index % OW;
    if NHWC {
        c = index % C;
        col = index / C % OW;
        row = index / (C * OW) % OH;
    }
    var sum = 0.0;
    for (var i = 0u; i < KH; i++) {
        // Unsigned: coordinates left of the image wrap around and exceed its extent.
        let y = row * STRIDE + i * DILATION - PAD;
        if y >= H {
            continue;
        }
        for (var j = 0u; j < KW; j++) {
            let at = col * STRIDE + j * DILATION - PAD;
            if at < W {
                sum += f32(x[pixel(n, c, y, at)]) * f32(w[tap(c, i, j)]);
            }
        }
    }
    out[index] = elem(sum);
}

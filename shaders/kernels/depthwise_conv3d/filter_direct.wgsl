// Gradients of the filters and of the bias of a depthwise convolution, one workgroup per sum. The definition is in
// core/workloads/src/ops/depthwise_conv3d/backward.rs.
//
// depthwise_filter_direct  a tap of a channel: gradients of the result times the image's elements under it
// depthwise_bias_direct    a channel: gradients of the result

#import depthwise_conv3d/common
#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(0) var<storage, read_write> dbias: array<elem>;
@group(0) @binding(1) var<storage, read> dout: array<elem>;
@group(0) @binding(2) var<storage, read_write> dw: array<elem>;

@compute @workgroup_size(THREADS)
fn depthwise_filter_direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = flat_group(group, groups);
    if number >= C * KD * KH * KW {
        return;
    }
    var c = number / (KD * KH * KW);
    var tap = number % (KD * KH * KW);
    if CHANNELS_LAST {
        c = number % C;
        tap = number / C;
    }
    let i = tap / (KH * KW);
    let j = tap / KW % KH;
    let k = tap % KW;
    var sum = 0.0;
    for (var at = lane; at < N * OD * OH * OW; at += THREADS) {
        let n = at / (OD * OH * OW);
        let z = at / (OH * OW) % OD;
        let y = at / OW % OH;
        // Unsigned: coordinates before the image wrap around and exceed its extent.
        let from_z = z * SD + i * LD - PD;
        let from_y = y * SH + j * LH - PH;
        let from_x = at % OW * SW + k * LW - PW;
        if from_z < ID && from_y < IH && from_x < IW {
            sum += f32(dout[out_index(n, c, z, y, at % OW)]) * f32(x[image_index(n, c, from_z, from_y, from_x)]);
        }
    }
    sum = row_sum(lane, sum);
    if lane == 0u {
        dw[number] = elem(sum);
    }
}

@compute @workgroup_size(THREADS)
fn depthwise_bias_direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let c = flat_group(group, groups);
    if c >= C {
        return;
    }
    var sum = 0.0;
    for (var at = lane; at < N * OD * OH * OW; at += THREADS) {
        sum += f32(dout[out_index(at / (OD * OH * OW), c, at / (OH * OW) % OD, at / OW % OH, at % OW)]);
    }
    sum = row_sum(lane, sum);
    if lane == 0u {
        dbias[c] = elem(sum);
    }
}

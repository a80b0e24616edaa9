// Gradient of the filters by four columns, where channels are not last.

#import depthwise_conv3d/filter
#import depthwise_conv3d/value_columns

@group(0) @binding(1) var<storage, read> dout: array<stored>;

fn gradients_of(walk: Walk, z: u32, y: u32) -> array<value, ALONG> {
    let four = vec4<f32>(dout[(((walk.n * C + walk.c) * OD + z) * OH + y) * UNITS + walk.unit]);
    return array<value, ALONG>(four.x, four.y, four.z, four.w);
}

fn store_sum(part: u32, c: u32, tap: u32, sum: value) {
    parts[part + c * (KD * KH * KW) + tap] = sum;
}

fn store_bias(first: u32, c: u32, sum: value) {
    parts[first + c] = sum;
}

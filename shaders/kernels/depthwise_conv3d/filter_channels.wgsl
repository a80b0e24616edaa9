// The gradient of the filters by four channels, where these are last.

#import depthwise_conv3d/filter
#import depthwise_conv3d/value_channels

@group(0) @binding(1) var<storage, read> dout: array<stored>;

fn gradients_of(walk: Walk, z: u32, y: u32) -> array<value, ALONG> {
    var gradients = array<value, ALONG>();
    for (var along = 0u; along < ALONG; along++) {
        let at = walk.unit * ALONG + along;
        if at < OW {
            gradients[along] = vec4<f32>(dout[(((walk.n * OD + z) * OH + y) * OW + at) * CHANNELS + walk.c]);
        }
    }
    return gradients;
}

fn put_four(first: u32, four: value) {
    for (var i = 0u; i < 4u; i++) {
        parts[first + i] = four[i];
    }
}

fn put_sum(part: u32, c: u32, tap: u32, sum: value) {
    put_four(part + tap * C + c * 4u, sum);
}

fn put_bias(first: u32, c: u32, sum: value) {
    put_four(first + c * 4u, sum);
}

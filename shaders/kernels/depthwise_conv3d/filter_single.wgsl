// Gradient of the filters by single elements: where channels are last, and for lengths that are no multiple of four.

#import depthwise_conv3d/filter
#import depthwise_conv3d/value_single

@group(0) @binding(1) var<storage, read> dout: array<elem>;

fn gradients_of(walk: Walk, z: u32, y: u32) -> array<value, ALONG> {
    var gradients = array<value, ALONG>();
    for (var along = 0u; along < ALONG; along++) {
        let at = walk.unit * ALONG + along;
        if at < OW {
            if CHANNELS_LAST {
                gradients[along] = f32(dout[(((walk.n * OD + z) * OH + y) * OW + at) * C + walk.c]);
            } else {
                gradients[along] = f32(dout[(((walk.n * C + walk.c) * OD + z) * OH + y) * OW + at]);
            }
        }
    }
    return gradients;
}

fn store_sum(part: u32, c: u32, tap: u32, sum: value) {
    if CHANNELS_LAST {
        parts[part + tap * C + c] = sum;
    } else {
        parts[part + c * (KD * KH * KW) + tap] = sum;
    }
}

fn store_bias(first: u32, c: u32, sum: value) {
    parts[first + c] = sum;
}

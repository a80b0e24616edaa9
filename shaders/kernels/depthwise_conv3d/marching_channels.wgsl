// `marching` by four channels, where these are last.

#import depthwise_conv3d/marching
#import depthwise_conv3d/value_channels

@group(0) @binding(1) var<storage, read> w: array<stored>;
@group(0) @binding(2) var<storage, read_write> out: array<stored>;

fn tap_value(c: u32, tap: u32) -> value {
    return vec4<f32>(w[tap * CHANNELS + c]);
}

#if BIASED
fn bias_value(c: u32) -> value {
    let at = c * 4u;
    return vec4<f32>(f32(bias[at]), f32(bias[at + 1u]), f32(bias[at + 2u]), f32(bias[at + 3u]));
}
#endif

fn write_row(walk: Walk, z: u32, y: u32, sums: array<value, ALONG>) {
    for (var along = 0u; along < ALONG; along++) {
        let at = walk.unit * ALONG + along;
        if WHOLE_COLUMNS || at < OW {
            out[(((walk.n * OD + z) * OH + y) * OW + at) * CHANNELS + walk.c] = stored(finished(sums[along], walk.c));
        }
    }
}

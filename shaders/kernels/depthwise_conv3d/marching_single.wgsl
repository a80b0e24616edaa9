// `marching` by single elements, for lengths that are no multiple of four.

#import depthwise_conv3d/marching
#import depthwise_conv3d/value_single

@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

fn tap_value(c: u32, tap: u32) -> value {
    if CHANNELS_LAST {
        return f32(w[tap * C + c]);
    }
    return f32(w[c * (KD * KH * KW) + tap]);
}

#if BIASED
fn bias_value(c: u32) -> value { return f32(bias[c]); }
#endif

fn write_row(walk: Walk, z: u32, y: u32, sums: array<value, ALONG>) {
    for (var along = 0u; along < ALONG; along++) {
        let at = walk.unit * ALONG + along;
        if WHOLE_COLUMNS || at < OW {
            let result = elem(finished(sums[along], walk.c));
            if CHANNELS_LAST {
                out[(((walk.n * OD + z) * OH + y) * OW + at) * C + walk.c] = result;
            } else {
                out[(((walk.n * C + walk.c) * OD + z) * OH + y) * OW + at] = result;
            }
        }
    }
}

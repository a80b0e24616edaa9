// `marching` by four columns, where channels are not last.

#import depthwise_conv3d/marching
#import depthwise_conv3d/value_columns

@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<stored>;

fn tap_value(c: u32, tap: u32) -> value {
    return f32(w[c * (KD * KH * KW) + tap]);
}

#if BIASED
fn bias_value(c: u32) -> value { return f32(bias[c]); }
#endif

fn write_row(walk: Walk, z: u32, y: u32, sums: array<value, ALONG>) {
    let four = vec4<f32>(finished(sums[0], walk.c), finished(sums[1], walk.c), finished(sums[2], walk.c),
        finished(sums[3], walk.c));
    out[(((walk.n * C + walk.c) * OD + z) * OH + y) * UNITS + walk.unit] = stored(four);
}

// Vectors of four 16-bit floats, as two words.

alias F16x4 = vec2<u32>;

fn floats_of(x: F16x4) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y));
}

fn f16x4_of(x: vec4<f32>) -> F16x4 {
    return vec2<u32>(pack2x16float(x.xy), pack2x16float(x.zw));
}

// Four 16-bit floats that lie one after the other, as two words.

alias Four = vec2<u32>;

fn floats_of(x: Four) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y));
}

fn four_of(x: vec4<f32>) -> Four {
    return vec2<u32>(pack2x16float(x.xy), pack2x16float(x.zw));
}

// Vectors of eight 16-bit floats, for kernels on matrix units: sixteen bytes, as four words. Browsers load matrices from arrays
// of words too. naga takes a matrix's type from its array's: there a vector becomes two vectors of four. PIECES elements of the
// array are eight floats in both.

alias F16x8 = vec4<u32>;
#if IN_A_BROWSER
alias Piece = vec4<u32>;
const PIECES: u32 = 1u;
#else
alias Piece = vec4<f16>;
const PIECES: u32 = 2u;
#endif

fn f16x8(low: vec4<f32>, high: vec4<f32>) -> F16x8 {
    return vec4<u32>(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
}

// Lower and upper half. naga converts words to 16-bit floats only through 16-bit integers, which drivers compile to nothing. A
// conversion through f32 would be instructions.
#if !IN_A_BROWSER
fn low_of(x: F16x8) -> vec4<f16> {
    return bitcast<vec4<f16>>(vec4<u16>(u16(x.x), u16(x.x >> 16u), u16(x.y), u16(x.y >> 16u)));
}
fn high_of(x: F16x8) -> vec4<f16> {
    return bitcast<vec4<f16>>(vec4<u16>(u16(x.z), u16(x.z >> 16u), u16(x.w), u16(x.w >> 16u)));
}
#endif

// Float i % 8 of a vector.
fn float_in(x: F16x8, i: u32) -> f32 {
    return unpack2x16float(x[i / 2u % 4u])[i % 2u];
}

fn f16x8_from(x: array<f32, 8>) -> F16x8 {
    return f16x8(vec4<f32>(x[0], x[1], x[2], x[3]), vec4<f32>(x[4], x[5], x[6], x[7]));
}

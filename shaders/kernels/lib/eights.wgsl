// Eight 16-bit floats that lie one after the other: what kernels on matrix units move at a time, sixteen bytes. Browsers load matrices
// from arrays of words too, and there they are four words. naga knows a matrix's type by its array's: there they are two vectors, which lie
// in workgroup memory one by one. PIECES elements of such an array are eight floats in either.

#when IN_A_BROWSER alias Eight = vec4<u32>;
#when IN_A_BROWSER alias Piece = vec4<u32>;
#when IN_A_BROWSER const PIECES: u32 = 1u;
#when !IN_A_BROWSER struct Eight { low: vec4<f16>, high: vec4<f16> }
#when !IN_A_BROWSER alias Piece = vec4<f16>;
#when !IN_A_BROWSER const PIECES: u32 = 2u;

fn eight(low: vec4<f32>, high: vec4<f32>) -> Eight {
#when IN_A_BROWSER     return vec4<u32>(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
#when !IN_A_BROWSER     return Eight(vec4<f16>(low), vec4<f16>(high));
}

// The float of number i, counted from the first of any eight.
fn float_in(x: Eight, i: u32) -> f32 {
#when IN_A_BROWSER     return unpack2x16float(x[i / 2u % 4u])[i % 2u];
#when !IN_A_BROWSER     return f32(select(x.low, x.high, i % 8u >= 4u)[i % 4u]);
}

fn eight_from(x: array<f32, 8>) -> Eight {
    return eight(vec4<f32>(x[0], x[1], x[2], x[3]), vec4<f32>(x[4], x[5], x[6], x[7]));
}

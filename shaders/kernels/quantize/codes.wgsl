// Scales and codes of `quantize`. MOST_BITS are the bits of the format's largest number, and LEAST_SCALE is the exponent of the least
// scale, with the bias of f32. Every step is exact.

// Scale of a group by the bits of its largest magnitude: NaN where a number is not finite.
fn scale_of(largest: u32) -> f32 {
    if largest >= 0x7f800000u {
        return bitcast<f32>(largest | 0x7fc00000u);
    }
    let above = select(0u, 1u, (largest & 0x7fffffu) > (MOST_BITS & 0x7fffffu));
    // Biased exponents: that of the scale is their difference plus 127.
    let exponent = max((largest >> 23u) + above + 127u, (MOST_BITS >> 23u) + LEAST_SCALE) - (MOST_BITS >> 23u);
    return bitcast<f32>(exponent << 23u);
}

// Inverse of a scale, a power of two; zero where the group is not finite.
fn inverse_of(largest: u32, scale: f32) -> f32 {
    return select(bitcast<f32>((254u << 23u) - bitcast<u32>(scale)), 0.0, largest >= 0x7f800000u);
}

// Code of a number within the format's range.
fn code_of(x: f32) -> u32 {
    if WHOLE_NUMBERS {
        return u32(i32(round(x))) & 255u;
    }
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    let sign = (bits >> 24u) & 0x80u;
    // Numbers below the least normal one are multiples of one step.
    if size < ((128u - BIAS) << 23u) {
        return sign | u32(round(abs(x) * bitcast<f32>((126u + BIAS + MANTISSA) << 23u)));
    }
    let dropped = 23u - MANTISSA;
    let rounded = size + ((1u << (dropped - 1u)) - 1u) + ((size >> dropped) & 1u);
    return sign | ((rounded >> dropped) - ((127u - BIAS) << MANTISSA));
}

// Word of four codes. A number that is not finite has no code: zero.
fn word_of(x: vec4<f32>, largest: u32, inverse: f32) -> u32 {
    if largest >= 0x7f800000u {
        return 0u;
    }
    return code_of(x.x * inverse) | (code_of(x.y * inverse) << 8u) | (code_of(x.z * inverse) << 16u)
        | (code_of(x.w * inverse) << 24u);
}

// Bits of the largest magnitude of four numbers. Those of NaN are above all others.
fn largest_of(x: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

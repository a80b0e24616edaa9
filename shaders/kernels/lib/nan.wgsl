// Maxima and ReLU that return NaN for NaN. WGSL lets maxima lose it, and drivers turn comparisons into maxima, so NaN is tested
// by its bits.

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn are_nan(x: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}

fn maximum(a: f32, b: f32) -> f32 {
    return select(max(a, b), a + b, is_nan(a) || is_nan(b));
}

fn maximum4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return select(max(a, b), a + b, are_nan(a) | are_nan(b));
}

// Zero in place of negative numbers: bits from those of -0 to those of -inf.
fn relu(x: f32) -> f32 {
    return select(x, 0.0, bitcast<u32>(x) - 0x80000000u <= 0x7f800000u);
}

fn relu4(x: vec4<f32>) -> vec4<f32> {
    return select(x, vec4<f32>(), bitcast<vec4<u32>>(x) - vec4<u32>(0x80000000u) <= vec4<u32>(0x7f800000u));
}

// Weight of a logit: its exponential relative to the largest logit of its row.

fn weight(x: f32, top: f32) -> f32 {
    return exp((x - top) / TEMPERATURE);
}

fn is_finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

// NaN from a number that is not finite.
fn not_a_number(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) | 0x7fc00000u);
}

// Parts of rows of logits: the maximum, and the sum of exponentials of the logits minus it.

#import lib/lowest

// Part of no logits.
fn no_part() -> vec2<f32> {
    return vec2<f32>(LOWEST, 0.0);
}

// Part of the logits of both. The maximum may lose NaN, and the sum keeps it.
fn joined(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let top = max(a.x, b.x);
    return vec2<f32>(top, a.y * exp(a.x - top) + b.y * exp(b.x - top));
}

// Logarithm of the sum of exponentials of a whole row.
fn log_sum(whole: vec2<f32>) -> f32 {
    return whole.x + log(whole.y);
}

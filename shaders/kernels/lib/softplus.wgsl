// Softplus and SiLU of one number. NaN stays.

#import lib/nan

// Logarithm of 1 + e^x. The logarithm of WGSL has an absolute error near one, which is more than a small exponential. A series is used
// instead: log(1 + u) = 2 (s + s^3/3 + s^5/5 + ...) for s = u / (2 + u), which is at most a third.
fn softplus(x: f32) -> f32 {
    let u = exp(-abs(x));
    let s = u / (2.0 + u);
    let q = s * s;
    let tail = q * (0.33333333 + q * (0.2 + q * (0.14285714 + q * (0.11111111 + q * (0.090909091 + q * 0.076923077)))));
    return relu(x) + 2.0 * (s + s * tail);
}

// x / (1 + e^-x). Below -80 the function is zero in f32.
fn silu(x: f32) -> f32 {
    return maximum(x, -80.0) / (1.0 + exp(clamp(-x, -80.0, 80.0)));
}

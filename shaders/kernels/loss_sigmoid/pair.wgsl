// Loss and slope of one pair of embeddings.

// Minus z times the logit: the argument of softplus.
fn against(row: u32, column: u32, logit: f32) -> f32 {
    return select(logit, -logit, row == column);
}

// ln(1 + exp(v)). WGSL guarantees little for logarithms near one. For e = exp(-|v|), ln(1 + e) = 2 artanh(s) with s = e/(2 + e),
// which is at most a third.
fn softplus(v: f32) -> f32 {
    let e = exp(-abs(v));
    let s = e / (2.0 + e);
    let q = s * s;
    let series = 1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0 + q / 13.0)))));
    return max(v, 0.0) + 2.0 * s * series;
}

// Slope of the loss by the logit. Its exponential does not overflow.
fn slope_of(row: u32, column: u32, logit: f32) -> f32 {
    let v = against(row, column, logit);
    let e = exp(-abs(v));
    let rise = select(e, 1.0, v >= 0.0) / (1.0 + e);
    return select(rise, -rise, row == column);
}

// Loss and slope of one pair of embeddings.

// Minus z times the logit: the argument of softplus.
__device__ __forceinline__ float against(unsigned row, unsigned column, float logit) {
    return row == column ? -logit : logit;
}

// ln(1 + exp(v)).
__device__ __forceinline__ float softplus(float v) { return fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v))); }

// Slope of the loss by the logit. Its exponential does not overflow.
__device__ __forceinline__ float slope_of(unsigned row, unsigned column, float logit) {
    const float v = against(row, column, logit);
    const float e = expf(-fabsf(v));
    const float rise = (v >= 0.0f ? 1.0f : e) / (1.0f + e);
    return row == column ? -rise : rise;
}

// One pair of embeddings: its part of the loss, and the slope of that.

// Minus z times the logit: what the loss rises with.
__device__ __forceinline__ float against(unsigned row, unsigned column, float logit) {
    return row == column ? -logit : logit;
}

// ln(1 + exp(v)).
__device__ __forceinline__ float softplus(float v) { return fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v))); }

// The slope of that with the logit, of which no exponential overflows.
__device__ __forceinline__ float slope_of(unsigned row, unsigned column, float logit) {
    const float v = against(row, column, logit);
    const float e = expf(-fabsf(v));
    const float rise = (v >= 0.0f ? 1.0f : e) / (1.0f + e);
    return row == column ? -rise : rise;
}

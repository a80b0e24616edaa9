// GELU and its slope.
//
// Beyond 16 of either sign the function is x or zero in f32. Arguments of powers and exponentials are clamped to that, so that
// nothing overflows. Exponentials and quotients are approximate: with 16-bit elements, exact ones would limit the speed.

#include "lib/elem.cuh"

constexpr float far_away = 16.0f;
// sqrt(2/pi), and the coefficient of the cube.
constexpr float slope_at_zero = 0.7978845608f;
constexpr float cube = 0.044715f;

// (1 + tanh(u)) / 2 for u = slope_at_zero (x + cube x^3): a logistic function, without cancellation.
__device__ __forceinline__ float tanh_share(float x) {
    const float doubled = 2.0f * slope_at_zero * x * fmaf(cube * x, x, 1.0f);
    return __fdividef(1.0f, 1.0f + __expf(fminf(-doubled, 80.0f)));
}

// Normal distribution function by formula 7.1.26 of Abramowitz and Stegun, with an error of at most 7.5e-8.
__device__ __forceinline__ float normal_share(float x) {
    const float z = fabsf(x) * 0.7071067812f;
    const float t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
    float sum = fmaf(t, 1.061405429f, -1.453152027f);
    sum = fmaf(t, sum, 1.421413741f);
    sum = fmaf(t, sum, -0.284496736f);
    sum = fmaf(t, sum, 0.254829592f);
    const float tail = 0.5f * t * sum * __expf(-z * z);
    return x < 0.0f ? tail : 1.0f - tail;
}

__device__ __forceinline__ float gelu_tanh(float x) {
    const float value = maximum(x, -far_away);
    return value * tanh_share(fminf(value, far_away));
}

__device__ __forceinline__ float gelu_erf(float x) {
    const float value = maximum(x, -far_away);
    return value * normal_share(fminf(value, far_away));
}

// Clamped to the interval with slopes other than zero and one. NaN stays.
__device__ __forceinline__ float clamped(float x) { return is_nan(x) ? x : fminf(fmaxf(x, -far_away), far_away); }

// Slope at a clamped argument, of which this is the tanh_share.
__device__ __forceinline__ float slope_at(float near, float share) {
    const float inner = 2.0f * slope_at_zero * fmaf(3.0f * cube * near, near, 1.0f);
    return fmaf(near * share * (1.0f - share), inner, share);
}

__device__ __forceinline__ float slope_tanh(float x) {
    const float near = clamped(x);
    return slope_at(near, tanh_share(near));
}

__device__ __forceinline__ float slope_erf(float x) {
    const float near = clamped(x);
    return fmaf(near * 0.3989422804f, __expf(-0.5f * near * near), normal_share(near));
}

// GELU by the tanh formula and its slope, where results are rounded to the element type.
//
// With bf16, tanh is an instruction of the hardware. Its error of 2^-11 is below the rounding of a result to bf16. It takes half
// of the time of an exponential and a quotient.

#include "gelu/share.cuh"

// tanh_share where the result is rounded.
__device__ __forceinline__ float fast_share(float x) {
#if defined(ELEM_BF16) && __CUDA_ARCH__ >= 750
    float tanh;
    asm("tanh.approx.f32 %0, %1;" : "=f"(tanh) : "f"(slope_at_zero * x * fmaf(cube * x, x, 1.0f)));
    return fmaf(0.5f, tanh, 0.5f);
#else
    return tanh_share(x);
#endif
}

__device__ __forceinline__ float gelu_fast(float x) {
    const float value = maximum(x, -far_away);
    return value * fast_share(fminf(value, far_away));
}

// GELU and its slope.
__device__ __forceinline__ float2 gelu_and_slope(float x) {
    const float near = clamped(x), share = fast_share(near);
    return make_float2(maximum(x, -far_away) * share, slope_at(near, share));
}

// Softplus and SiLU of one number. NaN stays.

#include "lib/elem.cuh"
#include "lib/exp2.cuh"

// Logarithm of 1 + e^x. Exponentials below the smallest normal number are zero.
__device__ __forceinline__ float softplus(float x) { return relu(x) + log1pf(expf(-fabsf(x))); }

// x / (1 + e^-x). The exponential of a number below -88 is infinite, and its inverse zero.
__device__ __forceinline__ float silu(float x) {
    float share;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(1.0f + exp2_fast(-LOG2_E * x)));
    return x * share;
}

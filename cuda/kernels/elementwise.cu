// Element-wise operations, in pieces. The definition is in core/workloads/src/ops/elementwise.rs.
//
// Beyond 80 of either sign a logistic function is zero or one in f32. Arguments of exponentials are clamped to that, so that nothing
// overflows.

#include "gelu/share.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Logistic function. A NaN may be lost: callers multiply by their argument or restore it.
__device__ __forceinline__ float logistic(float x) {
    return __fdividef(1.0f, 1.0f + __expf(fminf(fmaxf(-x, -80.0f), 80.0f)));
}

// silu. Below -80 the function is zero in f32.
__device__ __forceinline__ float silu(float x) { return maximum(x, -80.0f) * logistic(x); }

__device__ __forceinline__ float keep_nan(float x, float value) { return is_nan(x) ? x : value; }

__device__ __forceinline__ float of_two(float x, float y) {
    switch (OP) {
        case 0: return x + y;
        case 1: return x - y;
        case 2: return x * y;
        case 3: return x / y;
        case 4: return silu(x) * y;
        default: return gelu_tanh(x) * y;
    }
}

__device__ __forceinline__ float of_one(float x) {
    switch (OP) {
        case 6: return relu(x);
        case 7: return silu(x);
        case 8: return keep_nan(x, logistic(x));
        case 9: return keep_nan(x, 2.0f * logistic(2.0f * x) - 1.0f);
        default: return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
    }
}

extern "C" __global__ void elementwise_binary(const elem* __restrict__ a, const elem* __restrict__ b,
                                              elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(a, at);
    const piece other = load_piece(b, ROW ? at % COLUMNS : COLUMN ? at / COLUMNS : at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = of_two(value.at[i], other.at[i]);
    store_piece(out, at, value);
}

extern "C" __global__ void elementwise_unary(const elem* __restrict__ a, elem* __restrict__ result) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(a, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = of_one(value.at[i]);
    store_piece(result, at, value);
}

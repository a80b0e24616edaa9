// Fused multiply-adds on four accumulators of two elements, for units of 16-bit floats that take pairs. The definition is in
// core/workloads/src/ops/fma.rs.

#include "lib/launch.cuh"

#if defined(ELEM_F32)

typedef float2 pair;

__device__ __forceinline__ pair make_pair(elem first, elem second) { return make_float2(first, second); }

__device__ __forceinline__ float sum_of(pair x) { return x.x + x.y; }

__device__ __forceinline__ pair multiply_add(pair x, pair factor, pair term) {
    return make_float2(fmaf(x.x, factor.x, term.x), fmaf(x.y, factor.y, term.y));
}

#else

// Two elements in one register, the first in the lower half.
typedef unsigned pair;

__device__ __forceinline__ pair make_pair(elem first, elem second) { return first.bits | (unsigned)second.bits << 16; }

__device__ __forceinline__ float sum_of(pair x) {
    return load(elem{(unsigned short)x}) + load(elem{(unsigned short)(x >> 16)});
}

__device__ __forceinline__ pair multiply_add(pair x, pair factor, pair term) {
    pair y;
#if defined(ELEM_F16)
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(factor), "r"(term));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(factor), "r"(term));
#endif
    return y;
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    fma_vec2(const elem* __restrict__ a, const elem* __restrict__ b, float* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= N) return;
    const pair factor = make_pair(a[index * 2], a[index * 2 + 1]);
    pair terms[4], acc[4];
#pragma unroll
    for (unsigned j = 0; j < 4; j++) acc[j] = terms[j] = make_pair(b[index * 8 + 2 * j], b[index * 8 + 2 * j + 1]);
    // Sixteen rounds per iteration, so that the cost of the loop is negligible.
#pragma unroll 1
    for (unsigned iteration = 0; iteration < K / 16; iteration++) {
#pragma unroll
        for (unsigned round = 0; round < 16; round++) {
#pragma unroll
            for (unsigned j = 0; j < 4; j++) acc[j] = multiply_add(acc[j], factor, terms[j]);
        }
    }
#pragma unroll
    for (unsigned round = 0; round < K % 16; round++) {
#pragma unroll
        for (unsigned j = 0; j < 4; j++) acc[j] = multiply_add(acc[j], factor, terms[j]);
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned j = 0; j < 4; j++) sum += sum_of(acc[j]);
    out[index] = sum;
}

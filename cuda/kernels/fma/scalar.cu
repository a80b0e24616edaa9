// Fused multiply-adds on eight accumulators of one element. The definition is in core/workloads/src/ops/fma.rs.

#include "lib/launch.cuh"

// x * factor + term, in the element type.
__device__ __forceinline__ elem multiply_add(elem x, elem factor, elem term) {
#if defined(ELEM_F32)
    return fmaf(x, factor, term);
#else
    elem y;
#if defined(ELEM_F16)
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(y.bits) : "h"(x.bits), "h"(factor.bits), "h"(term.bits));
#else
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(y.bits) : "h"(x.bits), "h"(factor.bits), "h"(term.bits));
#endif
    return y;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    fma_scalar(const elem* __restrict__ a, const elem* __restrict__ b, float* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= N) return;
    const elem factors[2] = {a[index * 2], a[index * 2 + 1]};
    elem terms[8], acc[8];
#pragma unroll
    for (unsigned j = 0; j < 8; j++) acc[j] = terms[j] = b[index * 8 + j];
    // Sixteen rounds per iteration, so that the cost of the loop is negligible.
#pragma unroll 1
    for (unsigned iteration = 0; iteration < K / 16; iteration++) {
#pragma unroll
        for (unsigned round = 0; round < 16; round++) {
#pragma unroll
            for (unsigned j = 0; j < 8; j++) acc[j] = multiply_add(acc[j], factors[j % 2], terms[j]);
        }
    }
#pragma unroll
    for (unsigned round = 0; round < K % 16; round++) {
#pragma unroll
        for (unsigned j = 0; j < 8; j++) acc[j] = multiply_add(acc[j], factors[j % 2], terms[j]);
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) sum += load(acc[j]);
    out[index] = sum;
}

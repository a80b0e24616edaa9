// Pairs of 16-bit elements in fragments of tensor cores.

#include "lib/elem.cuh"

#if __CUDA_ARCH__ >= 800 && !defined(ELEM_F32)

// Product of two pairs of elements.
__device__ __forceinline__ unsigned times_pair(unsigned a, unsigned b) {
    unsigned product;
#if defined(ELEM_F16)
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
#else
    // Compute capability 8.0 has no multiplication of bf16 alone. The addend is -0.
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
    return product;
}

__device__ __forceinline__ float2 widened(unsigned pair) {
    return make_float2(load(elem{(unsigned short)pair}), load(elem{(unsigned short)(pair >> 16)}));
}

#endif

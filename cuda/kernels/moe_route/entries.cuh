// Logits with their experts as integers, in the order of choice: the greatest comes first, and zero is no logit. The definition is
// in core/workloads/src/ops/moe_route.
//
// 16-bit floats leave the lower 13 bits of an f32 unused, and their entries have the expert there.

#include "lib/elem.cuh"

// Bits of an expert, which rise as experts fall.
constexpr unsigned EXPERT_BITS = 0x1FFF;

#if defined(ELEM_F32)
typedef u64 entry;
#else
typedef unsigned entry;
#endif

__device__ __forceinline__ entry entry_of(float x, unsigned expert) {
    // The sum is +0 for both zeros, and one positive number for all NaN, which becomes the greatest.
    asm("add.rn.f32 %0, %0, 0f00000000;" : "+f"(x));
    const unsigned bits = __float_as_uint(x), rising = bits ^ ((unsigned)((int)bits >> 31) | 0x80000000u);
#if defined(ELEM_F32)
    return (u64)rising << 32 | (EXPERT_BITS - expert);
#else
    return (rising & ~EXPERT_BITS) | (EXPERT_BITS - expert);
#endif
}

__device__ __forceinline__ float logit_of(entry x) {
#if defined(ELEM_F32)
    const unsigned rising = (unsigned)(x >> 32);
    return __uint_as_float(rising ^ ((unsigned)((int)~rising >> 31) | 0x80000000u));
#else
    return __uint_as_float((x ^ ((unsigned)((int)~x >> 31) | 0x80000000u)) & ~EXPERT_BITS);
#endif
}

__device__ __forceinline__ unsigned expert_of(entry x) { return EXPERT_BITS - ((unsigned)x & EXPERT_BITS); }

__device__ __forceinline__ entry earlier(entry a, entry b) { return a > b ? a : b; }
__device__ __forceinline__ entry later(entry a, entry b) { return a > b ? b : a; }

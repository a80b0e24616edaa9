#pragma once
// Scales and codes of `quantize`. MOST_BITS are the bits of the format's largest number, and LEAST_SCALE is the exponent of the least
// scale, with the bias of f32. Every step is exact.

#include "lib/launch.cuh"

// Whether a group with these bits of its largest magnitude has a number that is not finite.
__device__ __forceinline__ bool not_finite(unsigned largest) { return largest >= 0x7F800000u; }

// Scale of a group by the bits of its largest magnitude: NaN where a number is not finite.
__device__ __forceinline__ float scale_of(unsigned largest) {
    if (not_finite(largest)) return __uint_as_float(0x7FC00000u);
    const unsigned above = (largest & 0x7FFFFFu) > (MOST_BITS & 0x7FFFFFu);
    // Biased exponents: that of the scale is their difference plus 127.
    const unsigned exponent = max((largest >> 23) + above + 127, (MOST_BITS >> 23) + LEAST_SCALE) - (MOST_BITS >> 23);
    return __uint_as_float(exponent << 23);
}

// Inverse of a scale, a power of two.
__device__ __forceinline__ float inverse_of(float scale) { return __uint_as_float((254u << 23) - __float_as_uint(scale)); }

// Code of a number within the format's range.
__device__ __forceinline__ unsigned code_of(float x) {
#if WHOLE_NUMBERS
    return (unsigned)__float2int_rn(x) & 255u;
#else
    const unsigned bits = __float_as_uint(x), size = bits & 0x7FFFFFFFu, sign = bits >> 24 & 0x80u;
    // Numbers below the least normal one are multiples of one step.
    if (size < (128 - BIAS) << 23) {
        return sign | __float2uint_rn(fabsf(x) * __uint_as_float((126 + BIAS + MANTISSA) << 23));
    }
    constexpr unsigned dropped = 23 - MANTISSA;
    const unsigned rounded = size + ((1u << (dropped - 1)) - 1) + (size >> dropped & 1);
    return sign | ((rounded >> dropped) - ((127 - BIAS) << MANTISSA));
#endif
}

// Word of four codes, the first in the lowest bits.
__device__ __forceinline__ unsigned word_of(const float* x, float inverse) {
#if __CUDA_ARCH__ >= 890 && !WHOLE_NUMBERS
    // One conversion takes two neighbours.
    unsigned short low, high;
    if constexpr (MANTISSA == 3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x[1] * inverse), "f"(x[0] * inverse));
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x[3] * inverse), "f"(x[2] * inverse));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x[1] * inverse), "f"(x[0] * inverse));
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x[3] * inverse), "f"(x[2] * inverse));
    }
    return low | (unsigned)high << 16;
#else
    return code_of(x[0] * inverse) | code_of(x[1] * inverse) << 8 | code_of(x[2] * inverse) << 16 |
           code_of(x[3] * inverse) << 24;
#endif
}

// Bits of a number's magnitude. Those of NaN are above all others.
__device__ __forceinline__ unsigned magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

// Codes and scales of fp8 GEMMs. A is M rows of WORDS words of four codes, and B is N such rows. Codes are e4m3, and e5m2 of A with
// A_E5M2. Scales are one each, one for each row (BY_ROW), or one for each block (BY_BLOCK): of 128 codes of A, and of 128 by 128 of B.

#include "lib/launch.cuh"

// Codes in a block along K, and rows of B.
constexpr unsigned SPAN = 128;

// Number of the e4m3 code in the lowest byte. Its bits are those of f32 but for the bias of the exponent, also where it is subnormal.
__device__ __forceinline__ float decoded(unsigned code) {
    const unsigned size = code & 0x7Fu;
    const float finite = __uint_as_float(size << 20) * __uint_as_float((127u + 120u) << 23);
    const unsigned bits = size == 0x7Fu ? 0x7FC00000u : __float_as_uint(finite);
    return __uint_as_float(bits | (code & 0x80u) << 24);
}

// Number of A's code in the lowest byte.
__device__ __forceinline__ float decoded_of_a(unsigned code) {
#if A_E5M2
    const unsigned size = code & 0x7Fu;
    const float finite = __uint_as_float(size << 21) * __uint_as_float((127u + 112u) << 23);
    // The last exponent has infinity and NaN, as that of f32.
    const unsigned bits = size >= 0x7Cu ? 0x7F800000u | size << 21 : __float_as_uint(finite);
    return __uint_as_float(bits | (code & 0x80u) << 24);
#else
    return decoded(code);
#endif
}

// Scale of part `part` of a row of A.
__device__ __forceinline__ float scale_of_a(const float* __restrict__ a_scale, unsigned row, unsigned part) {
#if BY_BLOCK
    return a_scale[(u64)row * PARTS + part];
#else
#if BY_ROW
    return a_scale[row];
#else
    return a_scale[0];
#endif
#endif
}

// Scale of part `part` of a row of B.
__device__ __forceinline__ float scale_of_b(const float* __restrict__ b_scale, unsigned col, unsigned part) {
#if BY_BLOCK
    return b_scale[(u64)(col / SPAN) * PARTS + part];
#else
#if BY_ROW
    return b_scale[col];
#else
    return b_scale[0];
#endif
#endif
}

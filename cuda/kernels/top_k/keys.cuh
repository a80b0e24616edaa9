// Keys of 32 bits in the order of numbers. NaN has the largest key, whatever its bits, and zeros of either sign have one key. No
// number has the key zero.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/reduce.cuh"

constexpr unsigned ALL = 0xFFFFFFFFu, SIGN = 0x80000000u;
constexpr unsigned row_pieces = COLUMNS / WIDTH;

__device__ __forceinline__ unsigned key_of(float x) {
    const unsigned bits = __float_as_uint(x), magnitude = bits & ~SIGN;
    const unsigned rising = bits & SIGN ? ~bits : bits | SIGN;
    return magnitude > 0x7F800000u ? ALL : magnitude == 0 ? SIGN : rising;
}

// Key and position as one number: larger keys are larger, then lower positions.
__device__ __forceinline__ u64 entry_of(unsigned key, unsigned at) { return (u64)key << 32 | (unsigned)~at; }

__device__ __forceinline__ unsigned place_of(u64 entry) { return ~(unsigned)entry; }

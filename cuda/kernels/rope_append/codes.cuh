// Codes of a head that LANES neighbouring threads hold, each with a piece of both halves.

#include "lib/pieces.cuh"
#include "quantize/codes.cuh"

// Words of a piece's codes, moved as one.
struct alignas(WIDTH) words {
    unsigned at[WIDTH / 4];
};

// Bits of the largest magnitude of a head. All threads of a warp call it.
__device__ __forceinline__ unsigned largest_of_head(const piece& first, const piece& second) {
    unsigned largest = 0;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) largest = max(largest, max(magnitude(first.at[i]), magnitude(second.at[i])));
#pragma unroll
    for (unsigned apart = 1; apart < LANES; apart *= 2) {
        largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, apart));
    }
    return largest;
}

// Stores the codes of a piece by the head's largest magnitude.
__device__ __forceinline__ void store_codes(unsigned* __restrict__ to, u64 index, const piece& x, unsigned largest,
                                            float inverse) {
    words four;
#pragma unroll
    for (unsigned i = 0; i < WIDTH / 4; i++) four.at[i] = not_finite(largest) ? 0 : word_of(x.at + 4 * i, inverse);
    reinterpret_cast<words*>(to)[index] = four;
}

// Groups of GROUP neighbours in a row. LANES neighbouring threads share a group, PIECES pieces each.

#include "top_k/keys.cuh"

// Groups of a block at a time.
constexpr unsigned at_once = THREADS / LANES;

// Largest of this thread's numbers of a group; NaN if one is NaN. Past the end of the row in its last group, a thread reads the
// last piece once more.
__device__ __forceinline__ float own_of_group(const elem* __restrict__ row, unsigned group) {
    const unsigned begin = group * (GROUP / WIDTH) + threadIdx.x % LANES;
    float top = negative_infinity();
#pragma unroll 8
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = begin + k * LANES;
        const piece values = load_piece(row, at < row_pieces ? at : row_pieces - 1);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) top = maximum(top, values.at[i]);
    }
    return top;
}

// Largest key of a group, for all its threads. Whole warps must call.
__device__ __forceinline__ unsigned key_of_group(float own) { return key_of(lanes_max(own, LANES)); }

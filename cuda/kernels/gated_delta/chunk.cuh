// Sums of exponents of the tokens of a chunk, for one head.

#include "lib/launch.cuh"

static_assert(CHUNK == 64, "a lane has two tokens");

// Least exponent of a token: next to its exponential, one is infinite in f32.
constexpr float LEAST = -64.0f;

// Logarithms of the decays of a lane's two tokens of the chunk that begins with token `first` of a sequence. Tokens behind the last
// have a decay of one.
__device__ __forceinline__ float2 two_of_g(const float* __restrict__ g, u64 sequence, unsigned head, unsigned first, unsigned lane) {
    const float* const at = g + (sequence * S + first + 2 * lane) * HEADS + head;
    float2 two = make_float2(0.0f, 0.0f);
    if (first + 2 * lane < S) two.x = maximum(at[0], LEAST);
    if (first + 2 * lane + 1 < S) two.y = maximum(at[HEADS], LEAST);
    return two;
}

// Fills sums up to each token from the logarithms of the two tokens of each lane of a warp.
__device__ __forceinline__ void fill_exponents(float (&exponents)[CHUNK], float2 two, unsigned lane) {
    float sum = two.x + two.y;
#pragma unroll
    for (unsigned reach = 1; reach < 32; reach *= 2) {
        const float before = __shfl_up_sync(0xFFFFFFFFu, sum, reach);
        if (lane >= reach) sum += before;
    }
    const float earlier = __shfl_up_sync(0xFFFFFFFFu, sum, 1);
    exponents[2 * lane] = lane == 0 ? two.x : earlier + two.x;
    exponents[2 * lane + 1] = sum;
}

// Four neighbours of a row of `extent` elements, from element `place` on; zeros outside.
__device__ __forceinline__ float4 four_of(const elem* __restrict__ row, unsigned place, unsigned extent) {
    float four[4] = {};
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        if (place + i < extent) four[i] = load(row[place + i]);
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

// Element `row` of the keys or queries of four tokens of a head, from `token` on; zeros outside.
__device__ __forceinline__ float4 four_tokens(const elem* __restrict__ of, u64 sequence, unsigned token, unsigned head, unsigned row) {
    float four[4] = {};
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        if (token + i < S && row < DK) four[i] = load(of[((sequence * S + token + i) * HEADS + head) * DK + row]);
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

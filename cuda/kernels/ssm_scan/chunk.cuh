// Steps of the tokens of a chunk, for one head.

#include "lib/launch.cuh"
#include "lib/softplus.cuh"

static_assert(CHUNK == 64, "a lane has two tokens");

// Least exponent of a token: its exponential is zero in f32.
constexpr float LEAST = -128.0f;

// `dt` of a lane's two tokens of the chunk that begins with token `first` of a sequence. Tokens behind the last have none.
__device__ __forceinline__ float2 two_of_dt(const elem* __restrict__ dt, u64 sequence, unsigned head, unsigned first, unsigned lane) {
    const elem* const at = dt + (sequence * S + first + 2 * lane) * HEADS + head;
    float2 two = make_float2(0.0f, 0.0f);
    if (first + 2 * lane < S) two.x = load(at[0]);
    if (first + 2 * lane + 1 < S) two.y = load(at[HEADS]);
    return two;
}

// Steps, and sums of exponents up to each token. Tokens behind the last have steps of zero.
struct Chunk {
    float steps[CHUNK], exponents[CHUNK];

    // Fills both from `dt` of the two tokens of each lane of a warp.
    __device__ __forceinline__ void fill(float2 two, float rate, float bias, unsigned first, unsigned lane) {
        const float step[2] = {first + 2 * lane < S ? softplus(two.x + bias) : 0.0f,
                               first + 2 * lane + 1 < S ? softplus(two.y + bias) : 0.0f};
        const float exponent[2] = {maximum(step[0] * rate, LEAST), maximum(step[1] * rate, LEAST)};
        float sum = exponent[0] + exponent[1];
#pragma unroll
        for (unsigned reach = 1; reach < 32; reach *= 2) {
            const float before = __shfl_up_sync(0xFFFFFFFFu, sum, reach);
            if (lane >= reach) sum += before;
        }
        const float earlier = __shfl_up_sync(0xFFFFFFFFu, sum, 1);
        steps[2 * lane] = step[0];
        steps[2 * lane + 1] = step[1];
        exponents[2 * lane] = lane == 0 ? exponent[0] : earlier + exponent[0];
        exponents[2 * lane + 1] = sum;
    }

    // Fills both for a chunk. All threads of the block call this.
    __device__ __forceinline__ void fill_by_block(const elem* __restrict__ dt, const float* __restrict__ heads, u64 sequence,
                                                  unsigned head, unsigned first) {
        if (threadIdx.x < 32) {
            fill(two_of_dt(dt, sequence, head, first, threadIdx.x), heads[head], heads[2 * HEADS + head], first, threadIdx.x);
        }
        __syncthreads();
    }
};

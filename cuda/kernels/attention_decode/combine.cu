// Last stage of attention_decode's `split`, `split_append` and `split_mma`.
//
// attention_decode_combine  a block per row of the output: weighted sum of the parts of its sequence

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

static_assert(SPLITS <= THREADS, "a thread weighs a part");

extern "C" __global__ void attention_decode_combine(const float* __restrict__ parts, const float* __restrict__ numbers,
                                                    elem* __restrict__ out) {
    __shared__ float weights[SPLITS];
    __shared__ float partial[THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    float top = negative_infinity(), of_part = 0.0f;
    if (threadIdx.x < SPLITS) {
        const float2 both = reinterpret_cast<const float2*>(numbers)[row * SPLITS + threadIdx.x];
        top = both.x;
        of_part = both.y;
    }
    const float highest = block_max(top, partial);
    // Without a token, all maxima are -inf and the sum is zero.
    const float weight = exp2f(top - (highest == negative_infinity() ? 0.0f : highest));
    if (threadIdx.x < SPLITS) weights[threadIdx.x] = weight;
    // The barriers of the sum also publish the weights.
    const float total = block_sum(of_part * weight, partial);
    for (unsigned x = threadIdx.x; x < D; x += THREADS) {
        float sum = 0.0f;
        // Few rows leave most of the device idle. Their time is that of dependent loads.
#pragma unroll 32
        for (unsigned i = 0; i < SPLITS; i++) sum = fmaf(parts[(row * SPLITS + i) * D + x], weights[i], sum);
        out[row * D + x] = to_elem(total == 0.0f ? 0.0f : sum / total);
    }
}

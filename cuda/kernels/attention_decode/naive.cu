// Attention of one token per sequence, without optimisations. The definition is in core/workloads/src/ops/attention_decode.
//
// attention_decode_naive  one block per head of queries: scores to device memory, softmax, weighted sum

#include "attention_decode/cache.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void attention_decode_naive(const elem* __restrict__ q, const elem* __restrict__ k,
                                                  const elem* __restrict__ v, const unsigned* __restrict__ table,
                                                  const unsigned* __restrict__ lengths, float* __restrict__ scores,
                                                  elem* __restrict__ out) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= (u64)SEQUENCES * HEADS) return;
    const unsigned sequence = (unsigned)(row / HEADS), key_head = (unsigned)(row % HEADS) / (HEADS / KEY_HEADS);
    const unsigned length = lengths[sequence];
    float* const weights = scores + row * T;

    const float scale = 1.0f / sqrtf((float)D);
    float max = LOWEST;
    for (unsigned j = threadIdx.x; j < length; j += ROW_THREADS) {
        const elem* const key = k + cache_at(table, sequence, j, key_head);
        float dot = 0.0f;
        for (unsigned x = 0; x < D; x++) dot = fmaf(load(q[row * D + x]), load(key[x]), dot);
        weights[j] = dot * scale;
        max = fmaxf(max, dot * scale);
    }
    max = block_max(max, partial);
    float sum = 0.0f;
    for (unsigned j = threadIdx.x; j < length; j += ROW_THREADS) {
        weights[j] = expf(weights[j] - max);
        sum += weights[j];
    }
    // The barriers of the sum also publish the weights.
    sum = block_sum(sum, partial);
    for (unsigned x = threadIdx.x; x < D; x += ROW_THREADS) {
        float acc = 0.0f;
        for (unsigned j = 0; j < length; j++) {
            acc = fmaf(weights[j], load(v[cache_at(table, sequence, j, key_head) + x]), acc);
        }
        out[row * D + x] = to_elem(sum == 0.0f ? 0.0f : acc / sum);
    }
}

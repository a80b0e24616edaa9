// Scaled dot-product attention, forward, for the set-up of the backward pass: any head_dim, no matrix of scores. The definition
// is in core/workloads/src/ops/attention.
//
// attention_forward  a block per query: output and log-sum-exp by an online softmax over tiles of keys, one key per thread

#include "attention/common.cuh" //= FORM: #include "attention/scores.cuh"
#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void attention_forward(const elem* __restrict__ q, const elem* __restrict__ k,
                                             const elem* __restrict__ v, elem* __restrict__ out,
                                             float* __restrict__ lse //+ SINKS: , const elem* __restrict__ sinks
#if OWN_LENGTHS
    , const unsigned* __restrict__ lengths
#endif
#if BIASED
    , const elem* __restrict__ mask
#endif
    ) {
    Masks masks;
#if OWN_LENGTHS
    masks.lengths = lengths;
#endif
#if BIASED
    masks.mask = mask;
#endif
    __shared__ float partial[ROW_THREADS / 32];
    __shared__ float weights[ROW_THREADS];
    const u64 row = flat_workgroup();
    if (row >= (u64)HEADS * S) return;
    const u64 first_key = row / S / GROUP * T;
    const unsigned seen = masks.seen_keys(row / S, (unsigned)(row % S));
    const float scale = 1.0f / sqrtf((float)D);
    float max = negative_infinity(), sum = 0.0f;
    float sums[COLUMNS] = {};
    for (unsigned first = masks.window_start((unsigned)(row % S)); first < seen; first += ROW_THREADS) {
        const bool inside = first + threadIdx.x < seen;
        float score = negative_infinity();
        if (inside) {
            const elem* const key = k + (first_key + first + threadIdx.x) * D;
            float product = 0.0f;
            for (unsigned x = 0; x < D; x++) product = fmaf(load(q[row * D + x]), load(key[x]), product); //+ CHANGES: product = changed(product, slope_of(row / S), (unsigned)(row % S), first + threadIdx.x);
            score = masks.biased(product * scale, (unsigned)(row % S), first + threadIdx.x, 1.0f);
        }
        // Its barriers also end the reads of the previous tile's weights.
        const float highest = fmaxf(max, block_max(score, partial));
        const float base = base_of(highest), weight = expf(score - base), shrink = expf(max - base);
        max = highest;
        weights[threadIdx.x] = weight;
        sum = sum * shrink + block_sum(weight, partial);
#pragma unroll
        for (unsigned c = 0; c < COLUMNS; c++) {
            const unsigned x = threadIdx.x + c * ROW_THREADS;
            if (x >= D) continue;
            sums[c] *= shrink;
            for (unsigned i = 0; i < ROW_THREADS && first + i < seen; i++) {
                sums[c] = fmaf(weights[i], load(v[(first_key + first + i) * D + x]), sums[c]);
            }
        }
    } //+ SINKS: const float logarithm = log_with_sink(sinks, row / S, max, sum); sum = with_sink(sinks, row / S, max, sum);
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; c++) {
        const unsigned x = threadIdx.x + c * ROW_THREADS;
        if (x < D) out[row * D + x] = to_elem(sum == 0.0f ? 0.0f : sums[c] / sum);
    }
    // A row without a visible key has no probabilities. Zero is stored for its logarithm, and never read.
    if (threadIdx.x == 0) lse[row] = sum == 0.0f ? 0.0f : max + logf(sum); //= SINKS: if (threadIdx.x == 0) lse[row] = logarithm;
}

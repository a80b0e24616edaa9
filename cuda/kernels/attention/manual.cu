// Scaled dot-product attention, forward, with the score matrix in device memory. The definition is in
// core/workloads/src/ops/attention.
//
// attention_scores   scores = scale * Q K^T in 16 x 16 tiles in shared memory; masked scores are computed too
// attention_softmax  weights of each row in place of its scores; hidden keys get weight 0

#include "attention/common.cuh" //= FORM: #include "attention/scores.cuh"
#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void attention_scores(float* __restrict__ scores, const elem* __restrict__ q,
                                            const elem* __restrict__ k
#if BIASED
    , const elem* __restrict__ mask
#endif
    ) {
    Masks masks;
#if BIASED
    masks.mask = mask;
#endif
    __shared__ float q_tile[TILE][TILE];
    __shared__ float k_tile[TILE][TILE];
    constexpr unsigned across = (T + TILE - 1) / TILE;
    constexpr unsigned down = (S + TILE - 1) / TILE;
    const u64 tile = flat_workgroup();
    if (tile >= (u64)HEADS * down * across) return;
    const u64 head = tile / ((u64)down * across);
    const u64 key_head = head / GROUP;
    const unsigned row = (unsigned)(tile / across % down) * TILE + threadIdx.y;
    const unsigned first_key = (unsigned)(tile % across) * TILE;
    const unsigned key = first_key + threadIdx.x;

    float acc = 0.0f;
    for (unsigned d0 = 0; d0 < D; d0 += TILE) {
        const unsigned d = d0 + threadIdx.x;
        const unsigned staged_key = first_key + threadIdx.y;
        q_tile[threadIdx.y][threadIdx.x] = row < S && d < D ? load(q[(head * S + row) * D + d]) : 0.0f;
        // Transposed, so that neighbouring threads read neighbouring words.
        const bool inside = staged_key < T && d < D;
        k_tile[threadIdx.x][threadIdx.y] = inside ? load(k[(key_head * T + staged_key) * D + d]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned x = 0; x < TILE; x++) acc = fmaf(q_tile[threadIdx.y][x], k_tile[x][threadIdx.x], acc);
        __syncthreads();
    }
    if (row < S && key < T) { //+ CHANGES: acc = changed(acc, slope_of(head), row, key);
        scores[(head * S + row) * T + key] = masks.biased(acc * (1.0f / sqrtf((float)D)), row, key, 1.0f);
    }
}

extern "C" __global__ void attention_softmax(float* __restrict__ scores //+ SINKS: , const elem* __restrict__ sinks
#if OWN_LENGTHS
    , const unsigned* __restrict__ lengths
#endif
#if KEEPS_LSE
    , float* __restrict__ lse
#endif
    ) {
    Masks masks;
#if OWN_LENGTHS
    masks.lengths = lengths;
#endif
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= (u64)HEADS * S) return;
    float* const weights = scores + row * T;
    const unsigned seen = masks.seen_keys(row / S, (unsigned)(row % S)), start = masks.window_start((unsigned)(row % S));

    float max = negative_infinity();
    for (unsigned j = start + threadIdx.x; j < seen; j += ROW_THREADS) max = fmaxf(max, weights[j]);
    max = base_of(block_max(max, partial));
    float sum = 0.0f;
    for (unsigned j = start + threadIdx.x; j < seen; j += ROW_THREADS) sum += expf(weights[j] - max);
    sum = block_sum(sum, partial); //+ SINKS: const float of_keys = sum; sum = with_sink(sinks, row / S, max, of_keys);
#if KEEPS_LSE
    if (threadIdx.x == 0) lse[row] = sum == 0.0f ? 0.0f : max + logf(sum); //= SINKS: if (threadIdx.x == 0) lse[row] = log_with_sink(sinks, row / S, max, of_keys);
#endif
    for (unsigned j = threadIdx.x; j < T; j += ROW_THREADS) {
        // A row without a visible key has sum zero.
        weights[j] = j < start || j >= seen || sum == 0.0f ? 0.0f : expf(weights[j] - max) / sum;
    }
}

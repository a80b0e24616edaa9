// Scaled dot-product attention, backward, with the probabilities in device memory. The definition is in
// core/workloads/src/ops/attention.
//
// attention_dscores  probabilities and gradients of scores in 16 x 16 tiles: two GEMMs of depth D in one loop

#include "attention/common.cuh" //= FORM: #include "attention/scores.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void attention_dscores(const float* __restrict__ delta, const elem* __restrict__ dout,
                                             float* __restrict__ probabilities, float* __restrict__ dscores,
                                             const elem* __restrict__ q, const elem* __restrict__ k,
                                             const elem* __restrict__ v, const float* __restrict__ lse
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
    __shared__ float q_tile[TILE][TILE];
    __shared__ float k_tile[TILE][TILE];
    __shared__ float dout_tile[TILE][TILE];
    __shared__ float v_tile[TILE][TILE];
    constexpr unsigned across = (T + TILE - 1) / TILE;
    constexpr unsigned down = (S + TILE - 1) / TILE;
    const u64 tile = flat_workgroup();
    if (tile >= (u64)HEADS * down * across) return;
    const u64 head = tile / ((u64)down * across);
    const unsigned row = (unsigned)(tile / across % down) * TILE + threadIdx.y;
    const unsigned first_key = (unsigned)(tile % across) * TILE;
    const unsigned key = first_key + threadIdx.x;

    float score = 0.0f;
    float dprobability = 0.0f;
    for (unsigned d0 = 0; d0 < D; d0 += TILE) {
        const unsigned d = d0 + threadIdx.x;
        const unsigned staged_key = first_key + threadIdx.y;
        const bool of_query = row < S && d < D;
        const bool of_key = staged_key < T && d < D;
        const u64 query_at = (head * S + row) * D + d;
        const u64 key_at = (head / GROUP * T + staged_key) * D + d;
        q_tile[threadIdx.y][threadIdx.x] = of_query ? load(q[query_at]) : 0.0f;
        dout_tile[threadIdx.y][threadIdx.x] = of_query ? load(dout[query_at]) : 0.0f;
        // Transposed, so that neighbouring threads read neighbouring words.
        k_tile[threadIdx.x][threadIdx.y] = of_key ? load(k[key_at]) : 0.0f;
        v_tile[threadIdx.x][threadIdx.y] = of_key ? load(v[key_at]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned x = 0; x < TILE; x++) {
            score = fmaf(q_tile[threadIdx.y][x], k_tile[x][threadIdx.x], score);
            dprobability = fmaf(dout_tile[threadIdx.y][x], v_tile[x][threadIdx.x], dprobability);
        }
        __syncthreads();
    }
    if (row < S && key < T) {
        const float scale = 1.0f / sqrtf((float)D); //+ CHANGES: const float bounded = capped(score); score = sloped(bounded, slope_of(head), row, key);
        const bool seen = masks.sees(head, row, key);
        const float exponent = masks.biased(score * scale, row, key, 1.0f) - lse[head * S + row];
        const float probability = seen ? expf(exponent) : 0.0f;
        const u64 at = (head * S + row) * T + key;
        probabilities[at] = probability;
        // Beyond the length, gradients of probabilities may have any value.
        dscores[at] = seen ? probability * (dprobability - delta[head * S + row]) * scale : 0.0f; //= CHANGES: dscores[at] = seen ? probability * (dprobability - delta[head * S + row]) * scale * slope_of_cap(bounded) : 0.0f;
    }
}

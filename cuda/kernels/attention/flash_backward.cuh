// Backward kernels of attention that recompute probabilities from the log-sum-exp of each row. The definition is in
// core/workloads/src/ops/attention.
//
// A block owns OWN rows of a head: queries, or keys where OF_KEYS. It loops over the other rows in tiles of OTHERS. Scores are
// products of own and other rows. Gradients of probabilities are products of own and other values. Rows and values are Q, K, dO
// and V where queries are owned, and K, Q, V and dO where keys are.
//
// Thread (tx, ty) computes results of own rows 4 ty .. 4 ty + 3 and other rows 2 tx and 2 tx + 1 of a tile.

#include "attention/common.cuh" //= FORM: #include "attention/scores.cuh"
#include "attention/vectors.cuh"

constexpr unsigned own_length = OF_KEYS ? T : S;
constexpr unsigned other_length = OF_KEYS ? S : T;
static_assert(OWN == 64 && OTHERS == 32, "each of 16 x 16 threads computes 4 x 2 scores");
static_assert(STAGED * 4 >= 2 * (OWN + OTHERS) * DEPTH && STAGED >= VALUES * COLUMNS * 16, "both fit into the stage");

// Matrices of a block's heads.
struct Heads {
    const elem* own;
    const elem* own_value;
    const elem* other;
    const elem* other_value;
    const float* lse;
    const float* delta;
    // Head of queries, for the masks.
    u64 queries;
    Masks masks; //+ SEQUENCED: __device__ __forceinline__ Range range_of(unsigned row) const { return OF_KEYS ? masks.queries_seeing(row) : masks.keys_seen(queries, row); }
};

// Results of four own rows and two other rows.
struct Found {
    float probability[4][2];
    float dscore[4][2];
};

__device__ __forceinline__ void add_products(float (&sum)[4][2], const float* own, const float* other) {
    const float4 a = *reinterpret_cast<const float4*>(own + 4 * threadIdx.y);
    const float2 b = *reinterpret_cast<const float2*>(other + 2 * threadIdx.x);
    sum[0][0] = fmaf(a.x, b.x, sum[0][0]);
    sum[0][1] = fmaf(a.x, b.y, sum[0][1]);
    sum[1][0] = fmaf(a.y, b.x, sum[1][0]);
    sum[1][1] = fmaf(a.y, b.y, sum[1][1]);
    sum[2][0] = fmaf(a.z, b.x, sum[2][0]);
    sum[2][1] = fmaf(a.z, b.y, sum[2][1]);
    sum[3][0] = fmaf(a.w, b.x, sum[3][0]);
    sum[3][1] = fmaf(a.w, b.y, sum[3][1]);
}

// Begins with a barrier, after which stage and factors are free.
__device__ __forceinline__ Found of_tile(float4* staged, const Heads& heads, unsigned own0, unsigned other0) {
    float* const own = reinterpret_cast<float*>(staged);  // [DEPTH][OWN]
    float* const own_value = own + DEPTH * OWN;
    float* const other = own_value + DEPTH * OWN;  // [DEPTH][OTHERS]
    float* const other_value = other + DEPTH * OTHERS;
    float score[4][2] = {}, dprobability[4][2] = {};
    for (unsigned d0 = 0; d0 < D; d0 += DEPTH) {
        __syncthreads();
        stage_transposed<OWN>(own, heads.own, own0, own_length, d0);
        stage_transposed<OWN>(own_value, heads.own_value, own0, own_length, d0);
        stage_transposed<OTHERS>(other, heads.other, other0, other_length, d0);
        stage_transposed<OTHERS>(other_value, heads.other_value, other0, other_length, d0);
        __syncthreads();
#pragma unroll
        for (unsigned d = 0; d < DEPTH; d++) {
            add_products(score, own + d * OWN, other + d * OTHERS);
            add_products(dprobability, own_value + d * OWN, other_value + d * OTHERS);
        }
    }
    const float scale = 1.0f / sqrtf((float)D);
    Found found; //+ SEQUENCED: const Range ranges[4] = {heads.range_of(own0 + 4 * threadIdx.y), heads.range_of(own0 + 4 * threadIdx.y + 1), heads.range_of(own0 + 4 * threadIdx.y + 2), heads.range_of(own0 + 4 * threadIdx.y + 3)};
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
#pragma unroll
        for (unsigned e = 0; e < 2; e++) {
            const unsigned row = own0 + 4 * threadIdx.y + r, against = other0 + 2 * threadIdx.x + e;
            const unsigned query = OF_KEYS ? against : row, key = OF_KEYS ? row : against; //+ CHANGES: const float bounded = capped(score[r][e]); score[r][e] = sloped(bounded, slope_of(heads.queries), query, key);
            const bool seen = query < S && heads.masks.sees(heads.queries, query, key); //= SEQUENCED: const bool seen = query < S && ranges[r].has(against);
            const float biased = heads.masks.biased(score[r][e] * scale, query, key, 1.0f);
            const float probability = seen ? expf(biased - heads.lse[query]) : 0.0f;
            found.probability[r][e] = probability;
            // Beyond the length, gradients of probabilities may have any value.
            found.dscore[r][e] = seen ? probability * (dprobability[r][e] - heads.delta[query]) * scale : 0.0f; //= CHANGES: found.dscore[r][e] = seen ? probability * (dprobability[r][e] - heads.delta[query]) * scale * slope_of_cap(bounded) : 0.0f;
        }
    }
    return found;
}

// A barrier must follow before other threads read them.
__device__ __forceinline__ void share(float (*factors)[OTHERS], const float (&mine)[4][2]) {
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const float2 pair = make_float2(mine[r][0], mine[r][1]);
        *reinterpret_cast<float2*>(&factors[4 * threadIdx.y + r][2 * threadIdx.x]) = pair;
    }
}

// Stores the sums of a block's own rows.
__device__ __forceinline__ void store_sums(elem* __restrict__ to, unsigned own0, const float4 (&sums)[4][COLUMNS]) {
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const unsigned row = own0 + 4 * threadIdx.y + r;
        if (row >= own_length) continue;
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) store_columns(to + (u64)row * D, (threadIdx.x + 16 * j) * 4, sums[r][j]);
    }
}

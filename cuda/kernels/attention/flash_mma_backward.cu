// Scaled dot-product attention, backward, on tensor cores. The definition is in core/workloads/src/ops/attention.
//
// attention_flash_mma_backward  as attention_flash_atomic, with warp-wide GEMMs of 16-bit floats; queries are copied one step
//                               ahead. From compute capability 8.0 on.

#include "attention/common.cuh"
#include "attention/staged_rows.cuh"
#include "lib/atomics.cuh"
#include "lib/exp2.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"

// Eight warps: warp w owns keys 16 w .. + 15 of the block, for all queries of a step. Scores and gradients of probabilities have
// keys as rows, so that the first two GEMMs leave the operand layout of the GEMMs for dV and dK. Only dQ sums over the keys of
// all warps: gradients of scores pass through shared memory for it.

// Queries whose scores a warp holds at a time, limited by registers.
constexpr unsigned HELD = PADDED <= 64 ? QUERIES : QUERIES / 2;
// Row of dS in shared memory: an odd number of 16-byte chunks, as rows of K.
constexpr unsigned DSCORE_ELEMS = QUERIES + 8;
constexpr unsigned QUERY_ELEMS = QUERIES * ROW_ELEMS;

// Stores sixteen of the block's rows, times a factor.
__device__ __forceinline__ void store_keys(elem* __restrict__ to, unsigned first, const float (&sums)[PADDED / 8][4],
                                           float factor) {
    const unsigned lane = threadIdx.y % 2 * 16 + threadIdx.x;
#pragma unroll
    for (unsigned r = 0; r < 2; r++) {
        const unsigned key = first + lane / 4 + r * 8;
        if (key >= T) continue;
#pragma unroll
        for (unsigned n = 0; n < PADDED / 8; n++) {
            const unsigned column = n * 8 + lane % 4 * 2;
            const float left = sums[n][2 * r] * factor, right = sums[n][2 * r + 1] * factor;
            elem* const at = to + (u64)key * D + column;
            if constexpr (D % 2 == 0) {
                if (column < D) *reinterpret_cast<unsigned*>(at) = pack(left, right);
            } else {
                if (column < D) at[0] = to_elem(left);
                if (column + 1 < D) at[1] = to_elem(right);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    attention_flash_mma_backward(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
                                 const elem* __restrict__ dout, const float* __restrict__ lse,
                                 const float* __restrict__ delta, elem* __restrict__ dk, elem* __restrict__ dv,
                                 float* __restrict__ dq_sum
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
    static_assert(KEYS == 128 && QUERIES == 64, "eight warps of sixteen keys; four of sixteen queries, twice");
    extern __shared__ uint4 shared[];
    elem* const k_tile = reinterpret_cast<elem*>(shared);
    elem* const v_tile = k_tile + KEYS * ROW_ELEMS;
    // Q and dO of a step and of the next.
    elem* const query_tiles = v_tile + KEYS * ROW_ELEMS;
    elem* const dscores = query_tiles + 4 * QUERY_ELEMS;
    // Log-sum-exp to base two and delta of each query, of a step and of the next.
    float* const numbers = reinterpret_cast<float*>(dscores + KEYS * DSCORE_ELEMS);

    constexpr unsigned tiles = (T + KEYS - 1) / KEYS, key_heads = HEADS / GROUP;
    const u64 index = flat_workgroup();
    if (index >= (u64)key_heads * tiles) return;
    // Under a causal mask, the first keys are seen by the most queries. They come first, so that no long block runs last.
    const u64 key_head = CAUSAL ? index % key_heads : index / tiles, of_keys = key_head * T * D;
    const unsigned key0 = (unsigned)(CAUSAL ? index / key_heads : index % tiles) * KEYS;
    const unsigned thread = threadIdx.y * 16 + threadIdx.x;
    const unsigned lane = thread % 32, warp = thread / 32, warp_key = warp * 16;
    // Steps cover the queries of each head of the group that see the block's keys.
    const unsigned skipped = masks.first_query(key0) / QUERIES, end_query = masks.window_end(key0 + KEYS - 1);
    const unsigned steps_of_head = (max(end_query, skipped * QUERIES) + QUERIES - 1) / QUERIES - skipped;
    const unsigned steps = steps_of_head * GROUP;

    const auto head_of = [&](unsigned step) { return key_head * GROUP + step / steps_of_head; };
    const auto first_of = [&](unsigned step) { return (skipped + step % steps_of_head) * QUERIES; };
    const auto stage_queries = [&](unsigned step) {
        elem* const to = query_tiles + step % 2 * 2 * QUERY_ELEMS;
        stage_rows<QUERIES>(to, q + head_of(step) * S * D, first_of(step), S);
        stage_rows<QUERIES>(to + QUERY_ELEMS, dout + head_of(step) * S * D, first_of(step), S);
    };
    // Number looked up by each of the first 2 * QUERIES threads. Past the end, no key has any weight.
    const auto number = [&](unsigned step) {
        const unsigned query = first_of(step) + thread % QUERIES;
        const u64 row = head_of(step) * S + query;
        if (thread < QUERIES) return query < S ? lse[row] * LOG2_E : -negative_infinity();
        return query < S ? delta[row] : 0.0f;
    };

    float dk_sum[PADDED / 8][4] = {}, dv_sum[PADDED / 8][4] = {}; //+ SEQUENCED: const Range seeing[2] = {masks.queries_seeing(key0 + warp_key + lane / 4), masks.queries_seeing(key0 + warp_key + lane / 4 + 8)};
    const float scale = 1.0f / sqrtf((float)D);
    const unsigned keys = masks.keys_of(key_head * GROUP);
    if (key0 >= keys || steps == 0) {
        // No query sees keys beyond the length, or before all windows.
        store_keys(dk + of_keys, key0 + warp_key, dk_sum, scale);
        store_keys(dv + of_keys, key0 + warp_key, dv_sum, 1.0f);
        return;
    }
    // Rows beyond the length may be NaN: zeros are staged.
    stage_rows<KEYS>(k_tile, k + of_keys, key0, keys);
    stage_rows<KEYS>(v_tile, v + of_keys, key0, keys);
    stage_queries(0);
    if (thread < 2 * QUERIES) numbers[thread] = number(0);
    for (unsigned step = 0; step < steps; step++) {
        // The barrier also ends the reads of the previous step, whose place the next step takes.
        staged_by_all();
        const bool more = step + 1 < steps;
        if (more) stage_queries(step + 1);
        const float next = more && thread < 2 * QUERIES ? number(step + 1) : 0.0f;
        const elem* const q_tile = query_tiles + step % 2 * 2 * QUERY_ELEMS;
        const elem* const dout_tile = q_tile + QUERY_ELEMS;
        const float* const lse_tile = numbers + step % 2 * 2 * QUERIES;
        const float* const delta_tile = lse_tile + QUERIES;
        const unsigned query0 = first_of(step);
        // Mask only in steps with a query that does not see all keys of the block.
        const bool masked = key0 + KEYS > min(masks.visible_keys(query0), keys) || key0 < masks.window_start(query0 + QUERIES - 1);

#pragma unroll 1
        for (unsigned held = 0; held < QUERIES; held += HELD) {
            float score[HELD / 8][4] = {}, dprobability[HELD / 8][4] = {};
#pragma unroll
            for (unsigned x = 0; x < PADDED / 16; x++) {
                unsigned key[4], value[4];
                load_matrices(key, k_tile + (warp_key + lane % 16) * ROW_ELEMS + x * 16 + lane / 16 * 8);
                load_matrices(value, v_tile + (warp_key + lane % 16) * ROW_ELEMS + x * 16 + lane / 16 * 8);
#pragma unroll
                for (unsigned n = 0; n < HELD / 8; n += 2) {
                    const unsigned query = held + n * 8 + lane / 16 * 8 + lane % 8;
                    unsigned b[4];
                    load_matrices(b, q_tile + query * ROW_ELEMS + x * 16 + lane / 8 % 2 * 8);
                    multiply_add(score[n], key, b[0], b[1]);
                    multiply_add(score[n + 1], key, b[2], b[3]);
                    load_matrices(b, dout_tile + query * ROW_ELEMS + x * 16 + lane / 8 % 2 * 8);
                    multiply_add(dprobability[n], value, b[0], b[1]);
                    multiply_add(dprobability[n + 1], value, b[2], b[3]);
                }
            }

            // In a fragment of results, a lane holds two neighbouring queries of keys lane / 4 and lane / 4 + 8.
#pragma unroll
            for (unsigned n = 0; n < HELD / 8; n++) {
                const unsigned column = held + n * 8 + lane % 4 * 2;
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    const unsigned key = key0 + warp_key + lane / 4 + e / 2 * 8;
                    const unsigned query = query0 + column + e % 2;
                    const bool unseen = masked && (key < masks.window_start(query) || key >= min(masks.visible_keys(query), keys)); //= SEQUENCED: const bool unseen = masked && !seeing[e / 2].has(query);
                    const float biased = masks.biased(score[n][e] * (scale * LOG2_E), query, key, LOG2_E);
                    const float exponent = biased - lse_tile[column + e % 2];
                    score[n][e] = unseen ? 0.0f : exp2f(exponent);
                    // Without the scale, which could underflow in 16 bits. Sums are scaled.
                    dprobability[n][e] = score[n][e] * (dprobability[n][e] - delta_tile[column + e % 2]);
                }
            }

#pragma unroll
            for (unsigned n = 0; n < HELD / 8; n += 2) {
                // Results of the first GEMMs have the operand layout of the second.
                const unsigned weight[4] = {pack(score[n][0], score[n][1]), pack(score[n][2], score[n][3]),
                                            pack(score[n + 1][0], score[n + 1][1]),
                                            pack(score[n + 1][2], score[n + 1][3])};
                const unsigned dscore[4] = {pack(dprobability[n][0], dprobability[n][1]),
                                            pack(dprobability[n][2], dprobability[n][3]),
                                            pack(dprobability[n + 1][0], dprobability[n + 1][1]),
                                            pack(dprobability[n + 1][2], dprobability[n + 1][3])};
                elem* const to = dscores + (warp_key + lane / 4) * DSCORE_ELEMS + held + n * 8 + lane % 4 * 2;
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    *reinterpret_cast<unsigned*>(to + e % 2 * 8 * DSCORE_ELEMS + e / 2 * 8) = dscore[e];
                }
                const unsigned query = held + n * 8 + lane % 16;
#pragma unroll
                for (unsigned m = 0; m < PADDED / 8; m += 2) {
                    unsigned b[4];
                    load_matrices_transposed(b, dout_tile + query * ROW_ELEMS + m * 8 + lane / 16 * 8);
                    multiply_add(dv_sum[m], weight, b[0], b[1]);
                    multiply_add(dv_sum[m + 1], weight, b[2], b[3]);
                    load_matrices_transposed(b, q_tile + query * ROW_ELEMS + m * 8 + lane / 16 * 8);
                    multiply_add(dk_sum[m], dscore, b[0], b[1]);
                    multiply_add(dk_sum[m + 1], dscore, b[2], b[3]);
                }
            }
        }
        __syncthreads();

        // dQ of the step over all keys of the block: warp w sums queries 16 (w % 4) .. + 15 and half w / 4 of each 32 columns.
        constexpr unsigned pairs = PADDED / 16;
        const unsigned warp_query = warp % 4 * 16, half = warp / 4;
        float dq[(pairs + 1) / 2][2][4] = {};
#pragma unroll
        for (unsigned x = 0; x < KEYS / 16; x++) {
            unsigned dscore[4];
            load_matrices_transposed(dscore, dscores + (x * 16 + lane / 16 * 8 + lane % 8) * DSCORE_ELEMS + warp_query +
                                                 lane / 8 % 2 * 8);
#pragma unroll
            for (unsigned p = 0; p < (pairs + 1) / 2; p++) {
                if (2 * p + half >= pairs) continue;
                unsigned b[4];
                load_matrices_transposed(
                    b, k_tile + (x * 16 + lane % 16) * ROW_ELEMS + (2 * p + half) * 16 + lane / 16 * 8);
                multiply_add(dq[p][0], dscore, b[0], b[1]);
                multiply_add(dq[p][1], dscore, b[2], b[3]);
            }
        }
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            const unsigned query = query0 + warp_query + lane / 4 + r * 8;
            if (query >= S) continue;
#pragma unroll
            for (unsigned p = 0; p < (pairs + 1) / 2; p++) {
#pragma unroll
                for (unsigned i = 0; i < 2; i++) {
                    const unsigned column = (2 * p + half) * 16 + i * 8 + lane % 4 * 2;
                    add_pair<D>(dq_sum + (head_of(step) * S + query) * D + column, column, dq[p][i][2 * r] * scale,
                                dq[p][i][2 * r + 1] * scale);
                }
            }
        }
        if (more && thread < 2 * QUERIES) numbers[(step + 1) % 2 * 2 * QUERIES + thread] = next;
    }
    store_keys(dk + of_keys, key0 + warp_key, dk_sum, scale);
    store_keys(dv + of_keys, key0 + warp_key, dv_sum, 1.0f);
}

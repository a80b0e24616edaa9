// Scaled dot-product attention, forward, in one stage. The definition is in core/src/suite/workloads/attention.
//
// attention_flash  against `manual`: a block keeps 64 query rows and walks over key tiles with an online softmax, so the
//                  scores never leave the multiprocessor and memory grows with the inputs only. Key tiles that no row of
//                  the block sees are skipped. Multiply-adds on f32 tiles in shared memory, for every element type.

#include "attention/flash.cuh"
#include "attention/vectors.cuh"
#include "lib/reduce.cuh"

// Thread (tx, ty) computes the scores of rows 4 ty .. 4 ty + 3 with keys 2 tx and 2 tx + 1, and of the same rows'
// output the column vectors tx + 16 j. The sixteen threads of a row are half a warp: maxima and sums are exchanged by
// shuffles, and every thread carries its rows' statistics.
extern "C" __global__ void __launch_bounds__(256)
    attention_flash(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
                    elem* __restrict__ out
#when OWN_LENGTHS , const unsigned* __restrict__ lengths
#when BIASED , const elem* __restrict__ mask
#when KEEPS_LSE , float* __restrict__ lse
    ) {
    Masks masks;
#when OWN_LENGTHS     masks.lengths = lengths;
#when BIASED     masks.mask = mask;
    static_assert(ROWS == 64 && KEYS == 32, "each of 16 x 16 threads computes 4 x 2 scores");
    __shared__ float4 staged[STAGED];
    __shared__ alignas(16) float weights[ROWS][KEYS];
    float* const q_stage = reinterpret_cast<float*>(staged);  // [DEPTH][ROWS]
    float* const k_stage = q_stage + DEPTH * ROWS;            // [DEPTH][KEYS]

    u64 head;
    unsigned row0;
    if (!flash_tile(head, row0)) return;
    const elem* const q_head = q + head * S * D;
    const elem* const k_head = k + head / GROUP * T * D;
    const elem* const v_head = v + head / GROUP * T * D;
    const unsigned tx = threadIdx.x, ty = threadIdx.y;
    const float scale = flash_scale();

    float4 acc[4][COLUMNS];
    float max[4], sum[4];
    unsigned seen[4];
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        max[r] = negative_infinity();
        sum[r] = 0.0f;
        seen[r] = masks.seen_keys(head, row0 + 4 * ty + r);
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) acc[r][j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    // The tile's last row sees the most keys.
    const unsigned end = masks.seen_keys(head, min(row0 + ROWS, S) - 1);
    for (unsigned key0 = 0; key0 < end; key0 += KEYS) {
        float score[4][2] = {};
        for (unsigned d0 = 0; d0 < D; d0 += DEPTH) {
            __syncthreads();
            stage_transposed<ROWS>(q_stage, q_head, row0, S, d0);
            stage_transposed<KEYS>(k_stage, k_head, key0, T, d0);
            __syncthreads();
#pragma unroll
            for (unsigned d = 0; d < DEPTH; d++) {
                const float4 a = *reinterpret_cast<const float4*>(q_stage + d * ROWS + 4 * ty);
                const float2 b = *reinterpret_cast<const float2*>(k_stage + d * KEYS + 2 * tx);
                score[0][0] = fmaf(a.x, b.x, score[0][0]);
                score[0][1] = fmaf(a.x, b.y, score[0][1]);
                score[1][0] = fmaf(a.y, b.x, score[1][0]);
                score[1][1] = fmaf(a.y, b.y, score[1][1]);
                score[2][0] = fmaf(a.z, b.x, score[2][0]);
                score[2][1] = fmaf(a.z, b.y, score[2][1]);
                score[3][0] = fmaf(a.w, b.x, score[3][0]);
                score[3][1] = fmaf(a.w, b.y, score[3][1]);
            }
        }

#pragma unroll
        for (unsigned r = 0; r < 4; r++) {
            const unsigned key = key0 + 2 * tx, row = row0 + 4 * ty + r;
            const float left = key < seen[r] ? masks.biased(score[r][0] * scale, row, key, LOG2_E) : negative_infinity();
            const float right =
                key + 1 < seen[r] ? masks.biased(score[r][1] * scale, row, key + 1, LOG2_E) : negative_infinity();
            const float highest = fmaxf(max[r], lanes_max(fmaxf(left, right), 16));
            const float base = base_of(highest);
            const float2 weight = make_float2(exp2f(left - base), exp2f(right - base));
            const float rescale = exp2f(max[r] - base);
            sum[r] = sum[r] * rescale + lanes_sum(weight.x + weight.y, 16);
            max[r] = highest;
            *reinterpret_cast<float2*>(&weights[4 * ty + r][2 * tx]) = weight;
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) {
                acc[r][j].x *= rescale;
                acc[r][j].y *= rescale;
                acc[r][j].z *= rescale;
                acc[r][j].w *= rescale;
            }
        }

        add_rows<KEYS>(acc, weights, staged, v_head, key0, T);
    }

#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const unsigned row = row0 + 4 * ty + r;
        if (row >= S) continue;
        const float inverse = sum[r] > 0.0f ? 1.0f / sum[r] : 0.0f;
        // Scores are to base two; a row that sees no key has no logarithm, for which zero stands.
#when KEEPS_LSE         if (tx == 0) lse[head * S + row] = sum[r] > 0.0f ? max[r] / LOG2_E + logf(sum[r]) : 0.0f;
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            const float4 x = acc[r][j];
            store_columns(out + (head * S + row) * D, (tx + 16 * j) * 4,
                          make_float4(x.x * inverse, x.y * inverse, x.z * inverse, x.w * inverse));
        }
    }
}

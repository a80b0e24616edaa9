// Scaled dot-product attention, forward, in one stage. The definition is in core/src/suite/workloads/attention.
//
// attention_flash  against `manual`: a block keeps 64 query rows and walks over key tiles with an online softmax, so the
//                  scores never leave the multiprocessor and memory grows with the inputs only. Key tiles that no row of
//                  the block sees are skipped. Multiply-adds on f32 tiles in shared memory, for every element type.

#include "attention/flash.cuh"
#include "lib/reduce.cuh"

// Columns column .. column + 3 of a row of Q, K or V, widened; zeros past the end.
__device__ __forceinline__ float4 load_columns(const elem* __restrict__ row, unsigned column, bool inside) {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if constexpr (D % 4 == 0) {
        // Rows start at multiples of four elements of an aligned buffer.
        if (inside && column < D) {
            const elem4 four = *reinterpret_cast<const elem4*>(row + column);
            x = make_float4(load(four.at[0]), load(four.at[1]), load(four.at[2]), load(four.at[3]));
        }
    } else if (inside) {
        if (column + 0 < D) x.x = load(row[column + 0]);
        if (column + 1 < D) x.y = load(row[column + 1]);
        if (column + 2 < D) x.z = load(row[column + 2]);
        if (column + 3 < D) x.w = load(row[column + 3]);
    }
    return x;
}

// Copy DEPTH columns of `count` rows to shared memory, transposed: the product then reads neighbouring words.
template <unsigned count>
__device__ __forceinline__ void stage_transposed(float* __restrict__ stage, const elem* __restrict__ matrix,
                                                 unsigned first, unsigned end, unsigned d0) {
    const unsigned thread = threadIdx.y * 16 + threadIdx.x;
    for (unsigned i = thread; i < count * (DEPTH / 4); i += 256) {
        const unsigned row = i % count, column = i / count * 4;
        const float4 x = load_columns(matrix + (u64)(first + row) * D, d0 + column, first + row < end);
        stage[(column + 0) * count + row] = x.x;
        stage[(column + 1) * count + row] = x.y;
        stage[(column + 2) * count + row] = x.z;
        stage[(column + 3) * count + row] = x.w;
    }
}

__device__ __forceinline__ void add_scaled(float4& acc, float weight, const float4& value) {
    acc.x = fmaf(weight, value.x, acc.x);
    acc.y = fmaf(weight, value.y, acc.y);
    acc.z = fmaf(weight, value.z, acc.z);
    acc.w = fmaf(weight, value.w, acc.w);
}

// Thread (tx, ty) computes the scores of rows 4 ty .. 4 ty + 3 with keys 2 tx and 2 tx + 1, and of the same rows'
// output the column vectors tx + 16 j. The sixteen threads of a row are half a warp: maxima and sums are exchanged by
// shuffles, and every thread carries its rows' statistics.
extern "C" __global__ void __launch_bounds__(256)
    attention_flash(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
                    elem* __restrict__ out) {
    static_assert(ROWS == 64 && KEYS == 32, "each of 16 x 16 threads computes 4 x 2 scores");
    __shared__ float4 staged[STAGED];
    __shared__ alignas(16) float weights[ROWS][KEYS];
    float* const q_stage = reinterpret_cast<float*>(staged);  // [DEPTH][ROWS]
    float* const k_stage = q_stage + DEPTH * ROWS;            // [DEPTH][KEYS]

    u64 head;
    unsigned row0;
    if (!flash_tile(head, row0)) return;
    const elem* const q_head = q + head * S * D;
    const elem* const k_head = k + head * T * D;
    const elem* const v_head = v + head * T * D;
    const unsigned tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
    const float scale = flash_scale();

    float4 acc[4][COLUMNS];
    float max[4], sum[4];
    unsigned seen[4];
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        max[r] = negative_infinity();
        sum[r] = 0.0f;
        seen[r] = visible_keys(row0 + 4 * ty + r);
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) acc[r][j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    // The tile's last row sees the most keys.
    const unsigned end = visible_keys(min(row0 + ROWS, S) - 1);
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
            const unsigned key = key0 + 2 * tx;
            const float left = key < seen[r] ? score[r][0] * scale : negative_infinity();
            const float right = key + 1 < seen[r] ? score[r][1] * scale : negative_infinity();
            const float highest = fmaxf(max[r], lanes_max(fmaxf(left, right), 16));
            // While a row has seen no key, all its scores are -inf; zero as the base keeps inf - inf away.
            const float base = highest == negative_infinity() ? 0.0f : highest;
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

        for (unsigned first = 0; first < KEYS; first += VALUES) {
            // The first barrier also ends the reading of the Q and K stage.
            __syncthreads();
            for (unsigned i = thread; i < VALUES * COLUMNS * 16; i += 256) {
                const unsigned key = key0 + first + i / (COLUMNS * 16);
                staged[i] = load_columns(v_head + (u64)key * D, i % (COLUMNS * 16) * 4, key < T);
            }
            __syncthreads();
#pragma unroll
            for (unsigned four = 0; four < VALUES; four += 4) {
                float4 weight[4];
#pragma unroll
                for (unsigned r = 0; r < 4; r++) {
                    weight[r] = *reinterpret_cast<const float4*>(&weights[4 * ty + r][first + four]);
                }
#pragma unroll
                for (unsigned j = 0; j < COLUMNS; j++) {
                    const float4* const value = staged + four * (COLUMNS * 16) + tx + 16 * j;
                    const float4 v0 = value[0], v1 = value[COLUMNS * 16];
                    const float4 v2 = value[2 * COLUMNS * 16], v3 = value[3 * COLUMNS * 16];
#pragma unroll
                    for (unsigned r = 0; r < 4; r++) {
                        add_scaled(acc[r][j], weight[r].x, v0);
                        add_scaled(acc[r][j], weight[r].y, v1);
                        add_scaled(acc[r][j], weight[r].z, v2);
                        add_scaled(acc[r][j], weight[r].w, v3);
                    }
                }
            }
        }
    }

#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const unsigned row = row0 + 4 * ty + r;
        if (row >= S) continue;
        const float inverse = sum[r] > 0.0f ? 1.0f / sum[r] : 0.0f;
        elem* const out_row = out + (head * S + row) * D;
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            const unsigned column = (tx + 16 * j) * 4;
            const float4 x = acc[r][j];
            const elem4 four = {to_elem(x.x * inverse), to_elem(x.y * inverse), to_elem(x.z * inverse),
                                to_elem(x.w * inverse)};
            if constexpr (D % 4 == 0) {
                if (column < D) *reinterpret_cast<elem4*>(out_row + column) = four;
            } else {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    if (column + e < D) out_row[column + e] = four.at[e];
                }
            }
        }
    }
}

// Scaled dot-product attention, forward, in one stage. The definition is in core/src/suite/workloads/attention.rs.
//
// attention_flash  against `manual`: a block keeps 64 query rows and walks over key tiles with an online softmax, so the
//                  scores never leave the multiprocessor and memory grows with the inputs only. Key tiles that no row of
//                  the block sees are skipped. Two ways, by element type and architecture:
//                  f32 (and anything before sm_80): multiply-adds on f32 tiles in shared memory;
//                  f16 and bf16 from sm_80: tensor cores, tiles copied asynchronously in the element type.

#include "attention/common.cuh"
#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/reduce.cuh"

// What a block works on: a head and a tile of ROWS query rows. False for blocks past the last tile.
__device__ __forceinline__ bool flash_tile(u64& head, unsigned& first_row) {
    constexpr unsigned tiles = (S + ROWS - 1) / ROWS;
    const u64 index = flat_workgroup();
    if (index >= (u64)HEADS * tiles) return false;
    if constexpr (CAUSAL) {
        // The last rows see the most keys. Starting with them keeps the end of the launch from waiting for a few long
        // blocks.
        head = index % HEADS;
        first_row = (tiles - 1 - (unsigned)(index / HEADS)) * ROWS;
    } else {
        head = index / tiles;
        first_row = (unsigned)(index % tiles) * ROWS;
    }
    return true;
}

// The exponential is taken to base two, the hardware's own; the change of base is part of the scale.
__device__ __forceinline__ float flash_scale() { return 1.4426950408889634f / sqrtf((float)D); }

#if defined(ELEM_F32) || __CUDA_ARCH__ < 800

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

#else

// Tensor cores. Eight warps: warp w works on rows 16 (w % 4) .. + 15 of the tile and on one half (w / 4) of the keys of
// every step, with an online softmax of its own; the two halves are merged once, at the end. So a warp needs nothing
// from another within a step, and the statistics stay in registers.

// head_dim, padded with zeros to whole matrix instructions.
constexpr unsigned PADDED = (D + 15) / 16 * 16;
// Keys per step: as many as fit with their values into static shared memory and registers.
constexpr unsigned STEP = PADDED <= 128 ? 64 : 32, HALF = STEP / 2;
// A row in shared memory, in chunks of 16 bytes: an odd number, so that eight rows start in eight different bank groups.
constexpr unsigned ROW_ELEMS = (PADDED / 8 + 1) * 8;

// Copy `count` rows from row `first` on to shared memory, zeros past the end of rows and columns.
template <unsigned count>
__device__ __forceinline__ void stage_rows(elem* stage, const elem* __restrict__ matrix, unsigned first, unsigned end) {
    const unsigned thread = threadIdx.y * 16 + threadIdx.x;
    for (unsigned i = thread; i < count * (PADDED / 8); i += 256) {
        const unsigned row = i / (PADDED / 8), column = i % (PADDED / 8) * 8;
        elem* const to = stage + row * ROW_ELEMS + column;
        const bool inside = first + row < end;
        const elem* const from = matrix + (u64)(inside ? first + row : 0) * D;
        if constexpr (D % 8 == 0) {
            copy_async(to, from + (column < D ? column : 0), inside && column < D);
        } else {
            // Rows do not start at multiples of 16 bytes.
#pragma unroll
            for (unsigned e = 0; e < 8; e++) {
                elem x;
                x.bits = 0;
                if (inside && column + e < D) x = from[column + e];
                to[e] = x;
            }
        }
    }
    close_copies();
}

// Wait for this thread's copies, then for everybody's.
__device__ __forceinline__ void staged_by_all() {
    wait_for_copies<0>();
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256)
    attention_flash(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
                    elem* __restrict__ out) {
    static_assert(ROWS == 64, "four warps of sixteen rows");
    // Keys, then values. Q passes through once at the start, and half of the results at the end.
    __shared__ alignas(16) elem stage[2 * STEP * ROW_ELEMS];
    static_assert(2 * STEP >= ROWS, "Q must fit into the stage");
    elem* const k_stage = stage;
    elem* const v_stage = stage + STEP * ROW_ELEMS;

    u64 head;
    unsigned row0;
    if (!flash_tile(head, row0)) return;
    const elem* const k_head = k + head * T * D;
    const elem* const v_head = v + head * T * D;
    const unsigned thread = threadIdx.y * 16 + threadIdx.x;
    const unsigned lane = thread % 32, warp_row = thread / 32 % 4 * 16, half = thread / 128;

    // Fragments of the warp's sixteen rows of Q, kept for all keys.
    unsigned query[PADDED / 16][4];
    stage_rows<ROWS>(stage, q + head * S * D, row0, S);
    staged_by_all();
#pragma unroll
    for (unsigned x = 0; x < PADDED / 16; x++) {
        load_matrices(query[x], stage + (warp_row + lane % 16) * ROW_ELEMS + x * 16 + lane / 16 * 8);
    }
    __syncthreads();

    // In a fragment of results a lane holds two neighbouring columns in row lane / 4 and in the row eight below.
    const float scale = flash_scale();
    const unsigned my_rows[2] = {row0 + warp_row + lane / 4, row0 + warp_row + lane / 4 + 8};
    const unsigned seen[2] = {visible_keys(my_rows[0]), visible_keys(my_rows[1])};
    const unsigned seen_by_all = visible_keys(row0);
    float max[2] = {negative_infinity(), negative_infinity()};
    float sum[2] = {0.0f, 0.0f};
    float acc[PADDED / 8][4];
#pragma unroll
    for (unsigned n = 0; n < PADDED / 8; n++) {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) acc[n][e] = 0.0f;
    }

    // The tile's last row sees the most keys.
    const unsigned end = visible_keys(min(row0 + ROWS, S) - 1);
    if (end > 0) stage_rows<STEP>(k_stage, k_head, 0, T);
    for (unsigned key0 = 0; key0 < end; key0 += STEP) {
        // The barrier also ends the reading of the values of the step before.
        staged_by_all();
        stage_rows<STEP>(v_stage, v_head, key0, T);

        float score[HALF / 8][4];
#pragma unroll
        for (unsigned n = 0; n < HALF / 8; n += 2) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) score[n][e] = score[n + 1][e] = 0.0f;
            const unsigned key = half * HALF + n * 8 + lane / 16 * 8 + lane % 8;
#pragma unroll
            for (unsigned x = 0; x < PADDED / 16; x++) {
                unsigned b[4];
                load_matrices(b, k_stage + key * ROW_ELEMS + x * 16 + lane / 8 % 2 * 8);
                multiply_add(score[n], query[x], b[0], b[1]);
                multiply_add(score[n + 1], query[x], b[2], b[3]);
            }
        }

        // Mask only in steps that some row does not see whole.
        const bool masked = key0 + STEP > seen_by_all;
        float highest[2] = {max[0], max[1]};
#pragma unroll
        for (unsigned n = 0; n < HALF / 8; n++) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                const unsigned key = key0 + half * HALF + n * 8 + lane % 4 * 2 + e % 2;
                score[n][e] = masked && key >= seen[e / 2] ? negative_infinity() : score[n][e] * scale;
                highest[e / 2] = fmaxf(highest[e / 2], score[n][e]);
            }
        }
        float base[2];
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            highest[r] = lanes_max(highest[r], 4);
            // While a row has seen no key, all its scores are -inf; zero as the base keeps inf - inf away.
            base[r] = highest[r] == negative_infinity() ? 0.0f : highest[r];
            const float rescale = exp2f(max[r] - base[r]);
            max[r] = highest[r];
            sum[r] *= rescale;
#pragma unroll
            for (unsigned n = 0; n < PADDED / 8; n++) {
                acc[n][2 * r] *= rescale;
                acc[n][2 * r + 1] *= rescale;
            }
        }
        // Each lane sums its own weights only; the four lanes of a row are added up once, at the end.
#pragma unroll
        for (unsigned n = 0; n < HALF / 8; n++) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                score[n][e] = exp2f(score[n][e] - base[e / 2]);
                sum[e / 2] += score[n][e];
            }
        }

        // The barrier also ends the reading of this step's keys: the next ones arrive behind the second product.
        staged_by_all();
        if (key0 + STEP < end) stage_rows<STEP>(k_stage, k_head, key0 + STEP, T);
#pragma unroll
        for (unsigned n = 0; n < HALF / 8; n += 2) {
            // Results of the first product have the layout that operands of the second need.
            const unsigned a[4] = {pack(score[n][0], score[n][1]), pack(score[n][2], score[n][3]),
                                   pack(score[n + 1][0], score[n + 1][1]), pack(score[n + 1][2], score[n + 1][3])};
            const unsigned key = half * HALF + n * 8 + lane % 16;
#pragma unroll
            for (unsigned m = 0; m < PADDED / 8; m += 2) {
                unsigned b[4];
                load_matrices_transposed(b, v_stage + key * ROW_ELEMS + m * 8 + lane / 16 * 8);
                multiply_add(acc[m], a, b[0], b[1]);
                multiply_add(acc[m + 1], a, b[2], b[3]);
            }
        }
    }

    // Merge the two halves of the keys: the upper four warps hand over, a slice of columns at a time.
    constexpr unsigned slice = PADDED / 8 < 8 ? PADDED / 8 : 8;
    float* const exchange = reinterpret_cast<float*>(stage);
    static_assert(sizeof(stage) >= slice * 4 * 128 * sizeof(float), "a slice of results must fit into the stage");
    const unsigned partner = thread % 128;
    float mine[2], theirs[2];
#pragma unroll
    for (unsigned r = 0; r < 2; r++) {
        sum[r] = lanes_sum(sum[r], 4);
        __syncthreads();
        if (half == 1) {
            exchange[partner] = max[r];
            exchange[128 + partner] = sum[r];
        }
        __syncthreads();
        const float other_max = exchange[partner], other_sum = exchange[128 + partner];
        const float highest = fmaxf(max[r], other_max);
        const float common = highest == negative_infinity() ? 0.0f : highest;
        mine[r] = exp2f(max[r] - common);
        theirs[r] = exp2f(other_max - common);
        const float total = sum[r] * mine[r] + other_sum * theirs[r];
        const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
        mine[r] *= inverse;
        theirs[r] *= inverse;
    }
#pragma unroll
    for (unsigned first = 0; first < PADDED / 8; first += slice) {
        __syncthreads();
        if (half == 1) {
#pragma unroll
            for (unsigned n = first; n < first + slice && n < PADDED / 8; n++) {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) exchange[((n - first) * 4 + e) * 128 + partner] = acc[n][e];
            }
        }
        __syncthreads();
        if (half == 1) continue;
#pragma unroll
        for (unsigned n = first; n < first + slice && n < PADDED / 8; n++) {
#pragma unroll
            for (unsigned r = 0; r < 2; r++) {
                const float* const other = exchange + ((n - first) * 4 + 2 * r) * 128 + partner;
                const float left = acc[n][2 * r] * mine[r] + other[0] * theirs[r];
                const float right = acc[n][2 * r + 1] * mine[r] + other[128] * theirs[r];
                const unsigned column = n * 8 + lane % 4 * 2;
                if (my_rows[r] >= S) continue;
                elem* const to = out + (head * S + my_rows[r]) * D + column;
                if constexpr (D % 2 == 0) {
                    if (column < D) *reinterpret_cast<unsigned*>(to) = pack(left, right);
                } else {
                    if (column < D) to[0] = to_elem(left);
                    if (column + 1 < D) to[1] = to_elem(right);
                }
            }
        }
    }
}

#endif

// Scaled dot-product attention, forward, on tensor cores. The definition is in core/workloads/src/ops/attention.
//
// attention_flash_mma  warp-wide GEMMs of 16-bit floats, asynchronous copies of tiles; from compute capability 8.0 on

#include "attention/flash.cuh"
#include "attention/staged_rows.cuh"
#include "lib/mma.cuh"
#include "lib/reduce.cuh"

// Eight warps: warp w owns rows 16 (w % 4) .. + 15 of the tile and half w / 4 of each step's keys, with an online softmax of its
// own. The halves are merged once, at the end. Within a step, warps exchange nothing, and statistics stay in registers.

// Keys per step: limited by static shared memory and registers.
constexpr unsigned STEP = PADDED <= 128 ? 64 : 32, HALF = STEP / 2;

extern "C" __global__ void __launch_bounds__(256)
    attention_flash_mma(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
                    elem* __restrict__ out //+ SINKS: , const elem* __restrict__ sinks
#if OWN_LENGTHS
    , const unsigned* __restrict__ lengths
#endif
#if BIASED
    , const elem* __restrict__ mask
#endif
#if KEEPS_LSE
    , float* __restrict__ lse
#endif
    ) {
    Masks masks;
#if OWN_LENGTHS
    masks.lengths = lengths;
#endif
#if BIASED
    masks.mask = mask;
#endif
    static_assert(ROWS == 64, "four warps of sixteen rows");
    // Keys, then values. Q passes through at the start, and half of the results at the end.
    __shared__ alignas(16) elem stage[2 * STEP * ROW_ELEMS];
    static_assert(2 * STEP >= ROWS, "Q must fit into the stage");
    elem* const k_stage = stage;
    elem* const v_stage = stage + STEP * ROW_ELEMS;

    u64 head;
    unsigned row0;
    if (!flash_tile(head, row0)) return;
    const elem* const k_head = k + head / GROUP * T * D;
    const elem* const v_head = v + head / GROUP * T * D;
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

    // In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8.
    const float scale = flash_scale(); //+ CHANGES: const float slope = slope_of(head);
    const unsigned my_rows[2] = {row0 + warp_row + lane / 4, row0 + warp_row + lane / 4 + 8};
    const unsigned seen[2] = {masks.seen_keys(head, my_rows[0]), masks.seen_keys(head, my_rows[1])};
    const unsigned start[2] = {masks.window_start(my_rows[0]), masks.window_start(my_rows[1])};
    // Keys that all rows of the tile see.
    const unsigned seen_by_all = masks.seen_keys(head, row0), start_of_all = masks.window_start(min(row0 + ROWS, S) - 1);
    float max[2] = {negative_infinity(), negative_infinity()};
    float sum[2] = {0.0f, 0.0f};
    float acc[PADDED / 8][4];
#pragma unroll
    for (unsigned n = 0; n < PADDED / 8; n++) {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) acc[n][e] = 0.0f;
    }

    // The tile's last row sees the last keys, its first row the first.
    const unsigned begin = masks.window_start(row0) / STEP * STEP;
    const unsigned end = masks.seen_keys(head, min(row0 + ROWS, S) - 1), keys = masks.keys_of(head);
    if (end > begin) stage_rows<STEP>(k_stage, k_head, begin, T);
    for (unsigned key0 = begin; key0 < end; key0 += STEP) {
        // The barrier also ends the reads of the previous step's values.
        staged_by_all();
        // Values beyond the length may be NaN: zeros are staged.
        stage_rows<STEP>(v_stage, v_head, key0, keys);

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

        // Mask only in steps that some row does not see completely.
        const bool masked = key0 < start_of_all || key0 + STEP > seen_by_all;
        float highest[2] = {max[0], max[1]};
#pragma unroll
        for (unsigned n = 0; n < HALF / 8; n++) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                const unsigned key = key0 + half * HALF + n * 8 + lane % 4 * 2 + e % 2; //+ CHANGES: score[n][e] = changed(score[n][e], slope, my_rows[e / 2], key);
                score[n][e] = masked && (key < start[e / 2] || key >= seen[e / 2])
                                  ? negative_infinity()
                                  : masks.biased(score[n][e] * scale, my_rows[e / 2], key, LOG2_E);
                highest[e / 2] = fmaxf(highest[e / 2], score[n][e]);
            }
        }
        float base[2];
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            highest[r] = lanes_max(highest[r], 4);
            base[r] = base_of(highest[r]);
            const float rescale = exp2f(max[r] - base[r]);
            max[r] = highest[r];
            sum[r] *= rescale;
#pragma unroll
            for (unsigned n = 0; n < PADDED / 8; n++) {
                acc[n][2 * r] *= rescale;
                acc[n][2 * r + 1] *= rescale;
            }
        }
        // Each lane sums its own weights. The four lanes of a row are added once, at the end.
#pragma unroll
        for (unsigned n = 0; n < HALF / 8; n++) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                score[n][e] = exp2f(score[n][e] - base[e / 2]);
                sum[e / 2] += score[n][e];
            }
        }

        // The barrier also ends the reads of this step's keys. The next keys arrive during the second GEMM.
        staged_by_all();
        if (key0 + STEP < end) stage_rows<STEP>(k_stage, k_head, key0 + STEP, T);
#pragma unroll
        for (unsigned n = 0; n < HALF / 8; n += 2) {
            // Results of the first GEMM have the operand layout of the second.
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

    // Merge the halves of the keys: the upper four warps pass on a slice of columns at a time.
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
        const float common = base_of(highest);
        mine[r] = exp2f(max[r] - common);
        theirs[r] = exp2f(other_max - common);
        const float total = sum[r] * mine[r] + other_sum * theirs[r];
        const float inverse = total == 0.0f ? 0.0f : 1.0f / total; //= SINKS: const float joined = with_sink(sinks, head, common / LOG2_E, total), inverse = total == 0.0f ? 0.0f : 1.0f / joined;
        // Scores are to base two. A row without a visible key has no logarithm: zero is stored.
#if KEEPS_LSE
        const float logarithm = total == 0.0f ? 0.0f : common / LOG2_E + logf(total); //= SINKS: const float logarithm = log_with_sink(sinks, head, common / LOG2_E, total);
        if (half == 0 && lane % 4 == 0 && my_rows[r] < S) lse[head * S + my_rows[r]] = logarithm;
#endif
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

// Scaled dot-product attention, forward, in one stage. The definition is in core/workloads/src/ops/attention.
//
// attention_flash  online softmax over tiles of KEYS keys; f32 multiply-adds for every element type
//
// A block owns ROWS query rows of a head. Tiles without a visible key are skipped. Thread (x, y) computes the scores of rows 4y..
// 4y + 3 with four keys, THREADS_N apart from x on. It also sums COLUMNS vectors of the output's same rows, in registers.
//
// Shared memory holds vectors along rows, keys or columns. Tiles are loaded a step ahead, into registers. With two STAGES a step
// has one barrier. Loops over short parts of V are unrolled: see docs/notebook/2026-11-28-kernel-notes.md.

#include "lib/elem.cuh"

constexpr unsigned THREADS = THREADS_N * THREADS_M, ROWS = 4 * THREADS_M, KEYS = 4 * THREADS_N, WIDTH = THREADS_N * COLUMNS;

#include "attention/flash.cuh"
#include "attention/vectors.cuh"

// Vectors from one depth, or key, to the next. PAD avoids bank conflicts of transposed stores.
constexpr unsigned Q_STRIDE = THREADS_M + PAD, K_STRIDE = THREADS_N + PAD, W_STRIDE = THREADS_M + 2 * PAD;
// Steps of a tile of scores, and of its weighted sum of values.
constexpr unsigned CHUNKS = (D + DEPTH - 1) / DEPTH, PARTS = KEYS / VALUES;
// 4 x 4 tiles of Q and K per step, and per thread; likewise vectors of V.
constexpr unsigned Q_TILES = DEPTH / 4 * THREADS_M, QK_TILES = Q_TILES + DEPTH / 4 * THREADS_N;
constexpr unsigned QK_LOADS = (QK_TILES + THREADS - 1) / THREADS, V_LOADS = (VALUES * WIDTH + THREADS - 1) / THREADS;
constexpr unsigned K_FROM = DEPTH * Q_STRIDE, OF_SCORES = K_FROM + DEPTH * K_STRIDE;
constexpr unsigned STAGE_VEC4 = OF_SCORES > VALUES * WIDTH ? OF_SCORES : VALUES * WIDTH;
constexpr bool HIDES = CAUSAL || OWN_LENGTHS || BIASED || T % KEYS != 0;
static_assert(2 * THREADS_N <= 32 && THREADS % 32 == 0, "the threads that share a row are of one warp");

// Reduces over the threads that share rows. Neighbouring threads of a warp share columns, then rows.
template <typename Combine>
__device__ __forceinline__ float over_row(float x, const Combine& combine) {
#pragma unroll
    for (unsigned apart = 2; apart < 2 * THREADS_N; apart *= 2) x = combine(x, __shfl_xor_sync(~0u, x, apart));
    return x;
}

// A thread's 4 x 4 tiles of Q and K: four neighbouring queries, or four keys THREADS_N apart, as for its scores.
struct QkTiles {
    float4 at[QK_LOADS][4];

    __device__ __forceinline__ void fetch(const elem* __restrict__ q, const elem* __restrict__ k, unsigned row, unsigned key,
                                          unsigned depth) {
#pragma unroll
        for (unsigned b = 0; b < QK_LOADS; b++) {
            const unsigned e = threadIdx.x + b * THREADS, d = depth + e % (DEPTH / 4) * 4;
            if (QK_TILES % THREADS != 0 && e >= QK_TILES) break;
            const bool of_queries = e < Q_TILES;
            const unsigned first = of_queries ? row + e / (DEPTH / 4) * 4 : key + (e - Q_TILES) / (DEPTH / 4);
            const unsigned end = of_queries ? S : T, apart = of_queries ? 1 : THREADS_N;
            const elem* const from = (of_queries ? q : k) + (u64)first * D;
#pragma unroll
            for (unsigned i = 0; i < 4; i++) at[b][i] = load_columns(from + (u64)(i * apart) * D, d, first + i * apart < end);
        }
    }

    // Stores the tiles transposed.
    __device__ __forceinline__ void keep(float4* stage) const {
#pragma unroll
        for (unsigned b = 0; b < QK_LOADS; b++) {
            const unsigned e = threadIdx.x + b * THREADS, d = e % (DEPTH / 4) * 4;
            if (QK_TILES % THREADS != 0 && e >= QK_TILES) break;
            const bool of_queries = e < Q_TILES;
            float4* const to = stage + (of_queries ? d * Q_STRIDE + e / (DEPTH / 4)
                                                   : K_FROM + d * K_STRIDE + (e - Q_TILES) / (DEPTH / 4));
            const unsigned next = of_queries ? Q_STRIDE : K_STRIDE;
            const float4 &r0 = at[b][0], &r1 = at[b][1], &r2 = at[b][2], &r3 = at[b][3];
            to[0] = make_float4(r0.x, r1.x, r2.x, r3.x);
            to[next] = make_float4(r0.y, r1.y, r2.y, r3.y);
            to[2 * next] = make_float4(r0.z, r1.z, r2.z, r3.z);
            to[3 * next] = make_float4(r0.w, r1.w, r2.w, r3.w);
        }
    }
};

// A thread's vectors of V.
struct Vectors {
    float4 at[V_LOADS];

    __device__ __forceinline__ void fetch(const elem* __restrict__ v, unsigned key, unsigned end) {
#pragma unroll
        for (unsigned b = 0; b < V_LOADS; b++) {
            const unsigned e = threadIdx.x + b * THREADS, row = key + e / WIDTH;
            if (VALUES * WIDTH % THREADS != 0 && e >= VALUES * WIDTH) break;
            at[b] = load_columns(v + (u64)row * D, e % WIDTH * 4, row < end);
        }
    }

    __device__ __forceinline__ void keep(float4* stage) const {
#pragma unroll
        for (unsigned b = 0; b < V_LOADS; b++) {
            const unsigned e = threadIdx.x + b * THREADS;
            if (VALUES * WIDTH % THREADS == 0 || e < VALUES * WIDTH) stage[e] = at[b];
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_flash(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
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
    // Q and K while scores are computed, then V.
    __shared__ float4 stage[STAGES * STAGE_VEC4];
    // Weights of keys, as vectors along rows.
    __shared__ float4 weights[KEYS * W_STRIDE];

    u64 head;
    unsigned row0;
    if (!flash_tile(head, row0)) return;
    const elem* const q_head = q + head * S * D;
    const elem* const k_head = k + head / GROUP * T * D;
    const elem* const v_head = v + head / GROUP * T * D;
    const unsigned x = threadIdx.x / 2 % THREADS_N, y = threadIdx.x / (2 * THREADS_N) * 2 + threadIdx.x % 2, row = row0 + 4 * y;
    // Scores are scaled when they become exponents. A mask is added to scaled scores.
    const float scale = flash_scale(), unit = BIASED ? 1.0f : scale; //+ CHANGES: const float slope = slope_of(head);

    float4 acc[4][COLUMNS];
    // Maximum of the scores so far, scaled.
    float top[4], sum[4];
    unsigned start[4], seen[4];
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        top[r] = negative_infinity();
        sum[r] = 0.0f;
        start[r] = masks.window_start(min(row + r, S - 1));
        seen[r] = masks.seen_keys(head, min(row + r, S - 1));
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) acc[r][j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    // The tile's last row sees the last keys, its first row the first.
    const unsigned begin = masks.window_start(row0) / KEYS * KEYS;
    const unsigned end = masks.seen_keys(head, min(row0 + ROWS, S) - 1), keys = masks.keys_of(head);
    QkTiles next;
    Vectors next_v;
    if (end > begin) next.fetch(q_head, k_head, row0, begin, 0);
    for (unsigned key = begin; key < end; key += KEYS) {
        float score[4][4] = {};
        for (unsigned c = 0; c < CHUNKS; c++) {
            float4* const staged = stage + c % STAGES * STAGE_VEC4;
            if (STAGES == 1) __syncthreads();
            next.keep(staged);
            __syncthreads();
            if (c + 1 < CHUNKS) next.fetch(q_head, k_head, row0, key, (c + 1) * DEPTH);
#pragma unroll
            for (unsigned d = 0; d < DEPTH; d++) {
                const float4 left = staged[d * Q_STRIDE + y], right = staged[K_FROM + d * K_STRIDE + x];
                const float rows[4] = {left.x, left.y, left.z, left.w}, columns[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
                for (unsigned r = 0; r < 4; r++) {
#pragma unroll
                    for (unsigned j = 0; j < 4; j++) score[r][j] = fmaf(rows[r], columns[j], score[r][j]);
                }
            }
        }
        next_v.fetch(v_head, key, keys);

#pragma unroll
        for (unsigned r = 0; r < 4; r++) {
            float highest = negative_infinity();
#pragma unroll
            for (unsigned j = 0; j < 4; j++) { //+ CHANGES: score[r][j] = changed(score[r][j], slope, row + r, key + j * THREADS_N + x);
                if (HIDES) {
                    const unsigned mine = key + j * THREADS_N + x;
                    if (BIASED) score[r][j] = masks.biased(score[r][j] * scale, row + r, mine, LOG2_E);
                    if (mine < start[r] || mine >= seen[r]) score[r][j] = negative_infinity();
                }
                highest = fmaxf(highest, score[r][j]);
            }
            highest = fmaxf(top[r], over_row(highest, [](float a, float b) { return fmaxf(a, b); }) * unit);
            const float base = base_of(highest), rescale = exp2f(top[r] - base);
            top[r] = highest;
            sum[r] *= rescale;
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                score[r][j] = exp2f(fmaf(score[r][j], unit, -base));
                sum[r] += score[r][j];
            }
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) {
                acc[r][j].x *= rescale;
                acc[r][j].y *= rescale;
                acc[r][j].z *= rescale;
                acc[r][j].w *= rescale;
            }
        }
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            const float4 weight = make_float4(score[0][j], score[1][j], score[2][j], score[3][j]);
            weights[(j * THREADS_N + x) * W_STRIDE + y] = weight;
        }

        // The first part of V overwrites a stage that may still be read for scores.
        if (STAGES == 2 && CHUNKS % 2 == 1) __syncthreads();
#pragma unroll(KEYS * COLUMNS <= 64 ? PARTS : 1)
        for (unsigned f = 0; f < PARTS; f++) {
            float4* const staged = stage + f % STAGES * STAGE_VEC4;
            if (STAGES == 1) __syncthreads();
            next_v.keep(staged);
            __syncthreads();
            if (f + 1 < PARTS) {
                next_v.fetch(v_head, key + (f + 1) * VALUES, keys);
            } else if (key + KEYS < end) {
                next.fetch(q_head, k_head, row0, key + KEYS, 0);
            }
#pragma unroll
            for (unsigned i = 0; i < VALUES; i++) {
                const float4 weight = weights[(f * VALUES + i) * W_STRIDE + y];
#pragma unroll
                for (unsigned j = 0; j < COLUMNS; j++) {
                    const float4 value = staged[i * WIDTH + x + j * THREADS_N];
                    add_scaled(acc[0][j], weight.x, value);
                    add_scaled(acc[1][j], weight.y, value);
                    add_scaled(acc[2][j], weight.z, value);
                    add_scaled(acc[3][j], weight.w, value);
                }
            }
        }
        // With an odd number of parts, the last one lies where the next scores begin.
        if (STAGES == 2 && PARTS % 2 == 1) __syncthreads();
    }

#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const float total = over_row(sum[r], [](float a, float b) { return a + b; });
        if (row + r >= S) continue;
        const float inverse = total == 0.0f ? 0.0f : 1.0f / total; //= SINKS: const float joined = with_sink(sinks, head, top[r] / LOG2_E, total), inverse = total == 0.0f ? 0.0f : 1.0f / joined;
        // Scores are to base two. A row without a visible key has no logarithm: zero is stored.
#if KEEPS_LSE
        if (x == 0) lse[head * S + row + r] = total == 0.0f ? 0.0f : top[r] / LOG2_E + logf(total); //= SINKS: if (x == 0) lse[head * S + row + r] = log_with_sink(sinks, head, top[r] / LOG2_E, total);
#endif
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            const float4 sums = acc[r][j];
            store_columns(out + (head * S + row + r) * D, (x + THREADS_N * j) * 4,
                          make_float4(sums.x * inverse, sums.y * inverse, sums.z * inverse, sums.w * inverse));
        }
    }
}

// Attention of one token per sequence on tensor cores, with sequences split into parts. The definition is in
// core/workloads/src/ops/attention_decode.
//
// attention_decode_split_mma  tokens pass through shared memory by asynchronous copies, STAGES - 1 tiles in flight; up to sixteen
//                             heads of queries are rows of warp-wide GEMMs. From compute capability 8.0 on.

#include "attention_decode/cache.cuh" //= PREFIXED: #include "attention_decode/prefix.cuh"
#include "lib/async_copy.cuh"
#include "lib/mma.cuh"
#include "lib/reduce.cuh"

// A warp takes every WARPS-th tile of TOKENS tokens of a part, with stages and an online softmax of its own. It waits for its own
// copies only. The warps of a block are merged once, at the end.
//
// With APPENDS, the last token of a sequence comes from the new keys and values, and no block reads its place in the caches. The
// first block of a head of keys with this token writes it there.

constexpr unsigned group = HEADS / KEY_HEADS;
constexpr unsigned shares = (group + HELD - 1) / HELD; //= PREFIXED: constexpr unsigned shares = (ROWS_OF_HEAD + HELD - 1) / HELD;
constexpr unsigned step = WARPS * TOKENS;

// head_dim, padded with zeros to a multiple of the instruction's depth.
constexpr unsigned PADDED = (D + 15) / 16 * 16;
// Elements per row in shared memory: an odd number of 16-byte chunks, so that eight rows start in eight bank groups.
constexpr unsigned ROW_ELEMS = PADDED + 8;
constexpr unsigned row_chunks = PADDED / 8;
// Keys of a tile, followed by its values.
constexpr unsigned tile_elems = TOKENS * ROW_ELEMS;
// In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8. With few heads the latter
// does not exist.
constexpr unsigned halves = HELD > 8 ? 2 : 1;
static_assert(HELD <= 16 && D % 8 == 0, "heads are rows of one instruction, and rows are copied 16 bytes at a time");
static_assert(TOKENS % 16 == 0 && TOKENS <= 32, "a lane has the place of a token, and instructions take sixteen");
static_assert(STAGES * 2 * tile_elems * sizeof(elem) >= halves * 8 * PADDED * sizeof(float), "sums must fit into the stages");

// Two neighbours of a query, zeros past the heads and past its end.
__device__ __forceinline__ unsigned query_pair(const elem* __restrict__ rows, unsigned heads, unsigned head, unsigned column) {
    return head < heads && column < D ? *reinterpret_cast<const unsigned*>(rows + (u64)head * D + column) : 0;
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attention_decode_split_mma(const elem* __restrict__ q,
#if APPENDS
                             elem* __restrict__ k, elem* __restrict__ v,
#else
                             const elem* __restrict__ k, const elem* __restrict__ v,
#endif
                               const unsigned* __restrict__ table, const unsigned* __restrict__ lengths,
                               float* __restrict__ parts, float* __restrict__ numbers
#if APPENDS
                             , const elem* __restrict__ new_k, const elem* __restrict__ new_v
#endif
    ) {
#if !APPENDS
    const elem *const new_k = nullptr, *const new_v = nullptr;
#endif
    extern __shared__ uint4 shared[];
    // Maximum score and sum of weights of each head.
    __shared__ float2 of_warps[WARPS][16];
    const u64 index = flat_workgroup();
    if (index >= (u64)SEQUENCES * KEY_HEADS * shares * SPLITS) return; //= PREFIXED: if (index >= (u64)SETS * KEY_HEADS * shares * SPLITS) return;
    const unsigned split = (unsigned)(index % SPLITS), share = (unsigned)(index / SPLITS % shares);
    const u64 key_rows = index / SPLITS / shares;
    const unsigned key_head = (unsigned)(key_rows % KEY_HEADS), sequence = (unsigned)(key_rows / KEY_HEADS);
    const u64 first_row = key_rows * group + share * HELD;
    const unsigned heads = min(HELD, group - share * HELD); //= PREFIXED: const unsigned heads = min(HELD, ROWS_OF_HEAD - share * HELD);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    elem* const stages = reinterpret_cast<elem*>(shared) + warp * STAGES * 2 * tile_elems;

    // The first lookups do not wait for the length: entries past the end are not used.
    const unsigned begin = split * CHUNK, mine = begin + warp * TOKENS; //= PREFIXED: const unsigned begin = FIRST + split * CHUNK, mine = begin + warp * TOKENS;
    const auto lookup = [&](unsigned tile) {
        return (unsigned)place_of(table, sequence, min(mine + tile * step + lane % TOKENS, T - 1));
    };
    unsigned places[STAGES];
#pragma unroll
    for (unsigned tile = 0; tile < STAGES; tile++) places[tile] = lookup(tile);
    const unsigned length = lengths[sequence], end = min(length, begin + CHUNK); //= PREFIXED: const unsigned length = SETS < SEQUENCES ? LAST : min(lengths[sequence], LAST), end = min(length, begin + CHUNK);
    const unsigned tiles = mine < end ? (end - mine + step - 1) / step : 0;

    // Copies a tile whose token `i` lies at the place in lane `i`. Every call closes a group of copies, also an empty one past
    // the end, so that waits can count groups.
    const u64 own = key_rows * D;
    const auto copy = [&](unsigned tile, unsigned place) {
        if (tile < tiles) {
            elem* const keys = stages + tile % STAGES * (2 * tile_elems);
            const unsigned first = mine + tile * step;
#pragma unroll
            for (unsigned part = 0; part < TOKENS * row_chunks / 32; part++) {
                const unsigned i = part * 32 + lane, row = i / row_chunks, column = i % row_chunks * 8;
                const u64 there = __shfl_sync(0xFFFFFFFFu, place, row);
                const bool inside = first + row < end && column < D;
                const bool is_new = APPENDS && first + row + 1 == length;
                const u64 from = (is_new ? own : (there * KEY_HEADS + key_head) * D) + (column < D ? column : 0);
                elem* const to = keys + row * ROW_ELEMS + column;
                copy_async(to, (is_new ? new_k : k) + from, inside);
                copy_async(to + tile_elems, (is_new ? new_v : v) + from, inside);
            }
        }
        close_copies();
    };
#pragma unroll
    for (unsigned tile = 0; tile < STAGES - 1; tile++) copy(tile, places[tile]);
    unsigned next = places[STAGES - 1];

    unsigned query[PADDED / 16][4];
#pragma unroll
    for (unsigned x = 0; x < PADDED / 16; x++) {
        const elem* const rows = q + first_row * D; //= PREFIXED: const Rows rows = {q, key_rows * group, share * HELD};
        const unsigned head = lane / 4, column = x * 16 + lane % 4 * 2;
        query[x][0] = query_pair(rows, heads, head, column);
        query[x][1] = halves == 2 ? query_pair(rows, heads, head + 8, column) : 0;
        query[x][2] = query_pair(rows, heads, head, column + 8);
        query[x][3] = halves == 2 ? query_pair(rows, heads, head + 8, column + 8) : 0;
    }

    // Exponentials are to base two, as the hardware computes them. The scale includes the change of base.
    const float scale = 1.4426950408889634f / sqrtf((float)D);
    float top[halves], total[halves], sums[PADDED / 8][4]; //+ PREFIXED: const unsigned limits[2] = {tokens_of(lengths, key_rows * group, share * HELD + lane / 4), tokens_of(lengths, key_rows * group, share * HELD + lane / 4 + 8)};
#pragma unroll
    for (unsigned r = 0; r < halves; r++) {
        top[r] = negative_infinity();
        total[r] = 0.0f;
    }
#pragma unroll
    for (unsigned m = 0; m < PADDED / 8; m++) {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) sums[m][e] = 0.0f;
    }

    for (unsigned tile = 0; tile < tiles; tile++) {
        wait_for_copies<STAGES - 2>();
        // All lanes' copies have arrived, and all lanes have read the previous tile, whose place the next copies take.
        __syncwarp();
        copy(tile + STAGES - 1, next);
        next = lookup(tile + STAGES);
        const elem* const keys = stages + tile % STAGES * (2 * tile_elems);
        const elem* const values = keys + tile_elems;

        float score[TOKENS / 8][4];
#pragma unroll
        for (unsigned n = 0; n < TOKENS / 8; n += 2) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) score[n][e] = score[n + 1][e] = 0.0f;
            const unsigned key = n * 8 + lane / 16 * 8 + lane % 8;
#pragma unroll
            for (unsigned x = 0; x < PADDED / 16; x++) {
                unsigned b[4];
                load_matrices(b, keys + key * ROW_ELEMS + x * 16 + lane / 8 % 2 * 8);
                multiply_add(score[n], query[x], b[0], b[1]);
                multiply_add(score[n + 1], query[x], b[2], b[3]);
            }
        }

        const unsigned first = mine + tile * step;
#pragma unroll
        for (unsigned r = 0; r < halves; r++) {
            float highest = top[r];
#pragma unroll
            for (unsigned n = 0; n < TOKENS / 8; n++) {
#pragma unroll
                for (unsigned e = 2 * r; e < 2 * r + 2; e++) {
                    const bool inside = first + n * 8 + lane % 4 * 2 + e % 2 < end; //= PREFIXED: const bool inside = first + n * 8 + lane % 4 * 2 + e % 2 < min(end, limits[r]);
                    score[n][e] = inside ? score[n][e] * scale : negative_infinity();
                    highest = fmaxf(highest, score[n][e]);
                }
            }
            highest = lanes_max(highest, 4);
            // All scores are -inf: a base of zero avoids inf - inf.
            const float base = highest == negative_infinity() ? 0.0f : highest;
            const float rescale = exp2f(top[r] - base);
            top[r] = highest;
            total[r] *= rescale;
#pragma unroll
            for (unsigned m = 0; m < PADDED / 8; m++) {
                sums[m][2 * r] *= rescale;
                sums[m][2 * r + 1] *= rescale;
            }
            // Each lane sums its own weights. The four lanes of a row are added once, at the end.
#pragma unroll
            for (unsigned n = 0; n < TOKENS / 8; n++) {
#pragma unroll
                for (unsigned e = 2 * r; e < 2 * r + 2; e++) {
                    score[n][e] = exp2f(score[n][e] - base);
                    total[r] += score[n][e];
                }
            }
        }

#pragma unroll
        for (unsigned n = 0; n < TOKENS / 8; n += 2) {
            // Results of the first GEMM have the operand layout of the second.
            const unsigned a[4] = {pack(score[n][0], score[n][1]), halves == 2 ? pack(score[n][2], score[n][3]) : 0,
                                   pack(score[n + 1][0], score[n + 1][1]),
                                   halves == 2 ? pack(score[n + 1][2], score[n + 1][3]) : 0};
            const unsigned key = n * 8 + lane % 16;
#pragma unroll
            for (unsigned m = 0; m < PADDED / 8; m += 2) {
                unsigned b[4];
                load_matrices_transposed(b, values + key * ROW_ELEMS + m * 8 + lane / 16 * 8);
                multiply_add(sums[m], a, b[0], b[1]);
                multiply_add(sums[m + 1], a, b[2], b[3]);
            }
        }
    }

    // Sums of a warp take the place of its stages, after all its lanes have read them.
    __syncwarp();
    float* const of_warp = reinterpret_cast<float*>(stages);
#pragma unroll
    for (unsigned r = 0; r < halves; r++) {
        const unsigned head = lane / 4 + 8 * r;
        const float all = lanes_sum(total[r], 4);
        if (lane % 4 == 0) of_warps[warp][head] = make_float2(top[r], all);
#pragma unroll
        for (unsigned m = 0; m < PADDED / 8; m++) {
            float* const to = of_warp + head * PADDED + m * 8 + lane % 4 * 2;
            to[0] = sums[m][2 * r];
            to[1] = sums[m][2 * r + 1];
        }
    }
    __syncthreads();
    constexpr unsigned apart = STAGES * 2 * tile_elems * sizeof(elem) / sizeof(float);
    for (unsigned i = threadIdx.x; i < heads * D; i += WARPS * 32) {
        const unsigned head = i / D, column = i % D;
        float highest = negative_infinity(), all = 0.0f, sum = 0.0f;
#pragma unroll
        for (unsigned w = 0; w < WARPS; w++) highest = fmaxf(highest, of_warps[w][head].x);
        // Where no warp has had a token, all maxima are -inf and the sums are zero.
        const float base = highest == negative_infinity() ? 0.0f : highest;
#pragma unroll
        for (unsigned w = 0; w < WARPS; w++) {
            const float2 of_this = of_warps[w][head];
            const float rescale = exp2f(of_this.x - base);
            all = fmaf(of_this.y, rescale, all);
            sum = fmaf(reinterpret_cast<const float*>(shared)[w * apart + head * PADDED + column], rescale, sum);
        }
        const u64 part = (first_row + head) * SPLITS + split; //= PREFIXED: const u64 part = row_of(key_rows * group, share * HELD + head) * ALL_PARTS + FIRST_PART + split;
        parts[part * D + column] = sum;
        if (column == 0) {
            numbers[part * 2] = highest;
            numbers[part * 2 + 1] = all;
        }
    }
#if APPENDS
    if (share == 0 && begin < length && length == end) {
        const u64 to = cache_at(table, sequence, length - 1, key_head);
        for (unsigned x = threadIdx.x; x < D; x += WARPS * 32) k[to + x] = new_k[own + x], v[to + x] = new_v[own + x];
    }
#endif
}

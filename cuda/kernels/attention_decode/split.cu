// Attention of one token per sequence, with sequences split into parts. The definition is in
// core/workloads/src/ops/attention_decode.
//
// attention_decode_split  a block per head of keys and part of the sequence; each key and value is read once for HELD heads of
//                         queries, 16 bytes at a time, with an online softmax

#include "attention_decode/cache.cuh" //= PREFIXED: #include "attention_decode/prefix.cuh"
#include "lib/pieces.cuh"
#include "lib/reduce.cuh"

// LANES neighbouring threads form a team, which shares a token's row in pieces of WIDTH elements. A team loads KEYS tokens before
// it uses the first, which hides latency. Each team has an online softmax per query. Teams of a block are merged once, at the
// end.
//
// With APPENDS, the last token of a sequence comes from the new keys and values, and no block reads its place in the caches. The
// first block of a head of keys with this token writes it there.

constexpr unsigned row_pieces = D / WIDTH;
constexpr unsigned teams = THREADS / LANES;
constexpr unsigned group = HEADS / KEY_HEADS;
constexpr unsigned shares = group / HELD; //= PREFIXED: constexpr unsigned shares = ROWS_OF_HEAD / HELD;

// Piece `i` of the thread in a row, zeros past its end.
__device__ __forceinline__ stored piece_of_row(const elem* __restrict__ row, unsigned i) {
    const unsigned index = threadIdx.x % LANES + i * LANES;
    stored piece = {};
    if (LANES * PIECES == row_pieces || index < row_pieces) piece = load_stored(row, index);
    return piece;
}

// Marker of a token outside the caches: the new one, whose key and value begin at `own`.
constexpr u64 is_new = ~0ull;

__device__ __forceinline__ const elem* row_at(const elem* cache, const elem* new_rows, u64 at, u64 own) {
    return APPENDS && at == is_new ? new_rows + own : cache + at;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_decode_split(const elem* __restrict__ q,
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
    __shared__ float merged[THREADS * PIECES * WIDTH];
    __shared__ float2 of_teams[teams][HELD];
    const u64 index = flat_workgroup();
    if (index >= (u64)SEQUENCES * KEY_HEADS * shares * SPLITS) return; //= PREFIXED: if (index >= (u64)SETS * KEY_HEADS * shares * SPLITS) return;
    const unsigned split = (unsigned)(index % SPLITS);
    const u64 share = index / SPLITS;
    const unsigned key_head = (unsigned)(share / shares % KEY_HEADS);
    const unsigned sequence = (unsigned)(share / (shares * KEY_HEADS));
    // A sequence's heads, group by group, are divided into shares of HELD.
    const u64 first_row = share * HELD; //= PREFIXED: const u64 set_row = share / shares * group; const unsigned first_of_set = (unsigned)(share % shares) * HELD;
    const unsigned team = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const unsigned begin = split * CHUNK, length = lengths[sequence], end = min(length, begin + CHUNK); //= PREFIXED: const unsigned begin = FIRST + split * CHUNK, length = SETS < SEQUENCES ? LAST : min(lengths[sequence], LAST), end = min(length, begin + CHUNK);

    // Exponentials are to base two, as the hardware computes them. The scale includes the change of base.
    const float scale = 1.4426950408889634f / sqrtf((float)D);
    piece query[HELD][PIECES], sums[HELD][PIECES];
    float top[HELD], total[HELD]; //+ PREFIXED: unsigned limits[HELD];
#pragma unroll
    for (unsigned g = 0; g < HELD; g++) {
        top[g] = negative_infinity();
        total[g] = 0.0f; //+ PREFIXED: limits[g] = tokens_of(lengths, set_row, first_of_set + g);
#pragma unroll
        for (unsigned i = 0; i < PIECES; i++) {
            query[g][i] = widened(piece_of_row(q + (first_row + g) * D, i)); //= PREFIXED: query[g][i] = widened(piece_of_row(q + row_of(set_row, first_of_set + g) * D, i));
            sums[g][i] = piece_of(0.0f);
        }
    }

    // Past the end, the last token is read again, with weight zero. All threads take every iteration: teams of a warp exchange
    // their products together.
    const u64 own = ((u64)sequence * KEY_HEADS + key_head) * D;
    const auto place = [&](unsigned first, unsigned u) {
        const unsigned token = min(first + u * teams + team, end - 1);
        return APPENDS && token + 1 == length ? is_new : cache_at(table, sequence, token, key_head);
    };
    u64 at[KEYS];
    if (begin < end) {
#pragma unroll
        for (unsigned u = 0; u < KEYS; u++) at[u] = place(begin, u);
    }
    for (unsigned first = begin; first < end; first += teams * KEYS) {
        stored key[KEYS][PIECES], value[KEYS][PIECES];
#pragma unroll
        for (unsigned u = 0; u < KEYS; u++) {
#pragma unroll
            for (unsigned i = 0; i < PIECES; i++) key[u][i] = piece_of_row(row_at(k, new_k, at[u], own), i);
        }
#pragma unroll
        for (unsigned u = 0; u < KEYS; u++) {
#pragma unroll
            for (unsigned i = 0; i < PIECES; i++) value[u][i] = piece_of_row(row_at(v, new_v, at[u], own), i);
        }
        // The next iteration's pages are looked up after this iteration's keys.
#pragma unroll
        for (unsigned u = 0; u < KEYS; u++) {
            at[u] = place(first + teams * KEYS, u);
        }

        float weight[HELD][KEYS];
#pragma unroll
        for (unsigned u = 0; u < KEYS; u++) {
            piece wide[PIECES];
#pragma unroll
            for (unsigned i = 0; i < PIECES; i++) wide[i] = widened(key[u][i]);
            const bool inside = first + u * teams + team < end;
#pragma unroll
            for (unsigned g = 0; g < HELD; g++) {
                float dot = 0.0f;
#pragma unroll
                for (unsigned i = 0; i < PIECES; i++) {
#pragma unroll
                    for (unsigned e = 0; e < WIDTH; e++) dot = fmaf(query[g][i].at[e], wide[i].at[e], dot);
                }
                dot = lanes_sum(dot, LANES);
                weight[g][u] = inside ? dot * scale : negative_infinity(); //= PREFIXED: weight[g][u] = inside && first + u * teams + team < limits[g] ? dot * scale : negative_infinity();
            }
        }
#pragma unroll
        for (unsigned g = 0; g < HELD; g++) {
            float highest = top[g];
#pragma unroll
            for (unsigned u = 0; u < KEYS; u++) highest = fmaxf(highest, weight[g][u]);
            // While a team has had no token, all its scores are -inf; a base of zero avoids inf - inf.
            const float base = highest == negative_infinity() ? 0.0f : highest;
            const float rescale = exp2f(top[g] - base);
            top[g] = highest;
            total[g] *= rescale;
#pragma unroll
            for (unsigned u = 0; u < KEYS; u++) {
                weight[g][u] = exp2f(weight[g][u] - base);
                total[g] += weight[g][u];
            }
#pragma unroll
            for (unsigned i = 0; i < PIECES; i++) {
#pragma unroll
                for (unsigned e = 0; e < WIDTH; e++) sums[g][i].at[e] *= rescale;
            }
        }
#pragma unroll
        for (unsigned u = 0; u < KEYS; u++) {
#pragma unroll
            for (unsigned i = 0; i < PIECES; i++) {
                const piece wide = widened(value[u][i]);
#pragma unroll
                for (unsigned g = 0; g < HELD; g++) {
#pragma unroll
                    for (unsigned e = 0; e < WIDTH; e++) {
                        sums[g][i].at[e] = fmaf(weight[g][u], wide.at[e], sums[g][i].at[e]);
                    }
                }
            }
        }
    }

    if (lane == 0) {
#pragma unroll
        for (unsigned g = 0; g < HELD; g++) of_teams[team][g] = make_float2(top[g], total[g]);
    }
    constexpr unsigned padded = LANES * PIECES * WIDTH;
#pragma unroll
    for (unsigned g = 0; g < HELD; g++) {
        // Also ends the reads of the previous query.
        __syncthreads();
        float highest = negative_infinity(), all = 0.0f;
        for (unsigned other = 0; other < teams; other++) highest = fmaxf(highest, of_teams[other][g].x);
        const float base = highest == negative_infinity() ? 0.0f : highest;
        for (unsigned other = 0; other < teams; other++) {
            all = fmaf(of_teams[other][g].y, exp2f(of_teams[other][g].x - base), all);
        }
        const float rescale = exp2f(top[g] - base);
#pragma unroll
        for (unsigned i = 0; i < PIECES; i++) {
#pragma unroll
            for (unsigned e = 0; e < WIDTH; e++) {
                merged[team * padded + (lane + i * LANES) * WIDTH + e] = sums[g][i].at[e] * rescale;
            }
        }
        __syncthreads();
        const u64 part = (first_row + g) * SPLITS + split; //= PREFIXED: const u64 part = row_of(set_row, first_of_set + g) * ALL_PARTS + FIRST_PART + split;
        for (unsigned x = threadIdx.x; x < D; x += THREADS) {
            float sum = 0.0f;
            for (unsigned other = 0; other < teams; other++) sum += merged[other * padded + x];
            parts[part * D + x] = sum;
        }
        if (threadIdx.x == 0) {
            numbers[part * 2] = highest;
            numbers[part * 2 + 1] = all;
        }
    }
#if APPENDS
    if (share % shares == 0 && begin < length && length == end) {
        const u64 to = cache_at(table, sequence, length - 1, key_head);
        for (unsigned x = threadIdx.x; x < D; x += THREADS) k[to + x] = new_k[own + x], v[to + x] = new_v[own + x];
    }
#endif
}

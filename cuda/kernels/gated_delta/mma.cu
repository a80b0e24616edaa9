// Gated delta rule on tensor cores, chunk by chunk. The definition is in core/workloads/src/ops/gated_delta.
//
// gated_delta_mma  a block per head of a sequence and COLUMNS columns of its state
//
// The state stays in the accumulators of four warps, each with every fourth sixteen of its rows, and a copy of 16 bits in shared
// memory is a factor of the next chunk. A warp has sixteen tokens of a chunk as rows:
//
//   rest  = V - e^c · (K · state)
//   delta = inverse · rest
//   out   = (e^c · (Q · state) + (scores · weights) · delta) / √dk
//   state = e^total · state + (K · e^(total - c))ᵀ · delta
//
// Keys have two stages in shared memory. The next chunk's other inputs replace those of a chunk where their last use has ended.

#include "gated_delta/chunk.cuh"
#include "gated_delta/fragments.cuh"
#include "lib/async_copy.cuh"
#include "lib/exponential.cuh"
#include "lib/mma.cuh"

#if __CUDA_ARCH__ >= 800 && !defined(ELEM_F32)

static_assert(THREADS == 128 && DK % 16 == 0 && DV % COLUMNS == 0 && COLUMNS % 16 == 0, "four warps of sixteen tokens");

// Elements of a row in shared memory: a vector more, against bank conflicts.
constexpr unsigned ROW_K = DK + 8, ROW_V = COLUMNS + 8, ROW_C = CHUNK + 8;
// Groups of eight columns of accumulators.
constexpr unsigned ACROSS = COLUMNS / 8;
// Sixteens of the state's rows, of all warps and of one.
constexpr unsigned ALL_ROWS = DK / 16, OWN_ROWS = (ALL_ROWS + 3) / 4;

// Adds the product of a fragment and sixteen rows of `right`, in shared memory.
__device__ __forceinline__ void add_rows(float (&sums)[ACROSS][4], const unsigned (&left)[4], const elem* right, unsigned lane) {
#pragma unroll
    for (unsigned m = 0; m < ACROSS; m += 2) {
        unsigned of_columns[4];
        load_matrices_transposed(of_columns, right + lane % 16 * ROW_V + m * 8 + lane / 16 * 8);
        multiply_add(sums[m], left, of_columns[0], of_columns[1]);
        multiply_add(sums[m + 1], left, of_columns[2], of_columns[3]);
    }
}

// Stores a fragment's rows as 16-bit elements.
__device__ __forceinline__ void store_rows(elem* rows, const float (&x)[ACROSS][4], unsigned lane) {
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        elem* const to = rows + (lane / 4 + 8 * i) * ROW_V + lane % 4 * 2;
#pragma unroll
        for (unsigned m = 0; m < ACROSS; m++) *reinterpret_cast<unsigned*>(to + m * 8) = pack(x[m][2 * i], x[m][2 * i + 1]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_mma(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v, const float* __restrict__ g,
                    const elem* __restrict__ inverse, elem* __restrict__ out, float* __restrict__ state) {
    extern __shared__ uint4 shared[];
    __shared__ float exponents[2][CHUNK];
    elem* const all_keys = reinterpret_cast<elem*>(shared);
    elem* const queries = all_keys + 2 * CHUNK * ROW_K;
    elem* const values = queries + CHUNK * ROW_K;
    elem* const factors = values + CHUNK * ROW_V;
    elem* const rest = factors + CHUNK * ROW_C;
    elem* const deltas = rest + CHUNK * ROW_V;
    elem* const before = deltas + CHUNK * ROW_V;
    constexpr unsigned parts = DV / COLUMNS;
    const u64 index = flat_workgroup(), of_head = index / parts, sequence = of_head / HEADS;
    if (of_head >= (u64)SEQUENCES * HEADS) return;
    const unsigned column = index % parts * COLUMNS, head = of_head % HEADS;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane % 4;

    // Rows of keys or queries of a chunk. Tokens behind the last are zeros.
    const auto stage_rows = [&](elem* to, const elem* __restrict__ of, unsigned chunk) {
        const unsigned first = chunk * CHUNK;
#pragma unroll
        for (unsigned e = threadIdx.x; e < CHUNK * (DK / 8); e += THREADS) {
            const unsigned token = e / (DK / 8), piece = e % (DK / 8) * 8;
            const u64 from = ((sequence * S + min(first + token, S - 1)) * HEADS + head) * DK + piece;
            copy_async(to + token * ROW_K + piece, of + from, first + token < S);
        }
    };
    // Values and the inverse of a chunk.
    const auto stage_values = [&](unsigned chunk) {
        const unsigned first = chunk * CHUNK;
#pragma unroll
        for (unsigned e = threadIdx.x; e < CHUNK * (COLUMNS / 8); e += THREADS) {
            const unsigned token = e / (COLUMNS / 8), piece = e % (COLUMNS / 8) * 8;
            const u64 from = ((sequence * S + min(first + token, S - 1)) * HEADS + head) * DV + column + piece;
            copy_async(values + token * ROW_V + piece, v + from, first + token < S);
        }
        const elem* const of_chunk = inverse + ((sequence * CHUNKS + chunk) * HEADS + head) * CHUNK * CHUNK;
#pragma unroll
        for (unsigned e = threadIdx.x; e < CHUNK * (CHUNK / 8); e += THREADS) {
            copy_async(factors + e / (CHUNK / 8) * ROW_C + e % (CHUNK / 8) * 8, of_chunk + e * 8, true);
        }
    };
    stage_rows(all_keys, k, 0);
    close_copies();
    stage_values(0);
    close_copies();
    stage_rows(queries, q, 0);
    close_copies();
    float2 next_g = make_float2(0.0f, 0.0f);
    if (warp == 0) fill_exponents(exponents[0], two_of_g(g, sequence, head, 0, lane), lane);

    float states[OWN_ROWS][ACROSS][4] = {};
#pragma unroll 1
    for (unsigned chunk = 0; chunk < CHUNKS; chunk++) {
        const unsigned first = chunk * CHUNK;
        const bool last = chunk + 1 == CHUNKS;
        // All but the queries.
        wait_for_copies<1>();
        // Also ends all uses of the other stage of keys, and the stores of the state's copy.
        __syncthreads();
        if (!last) {
            stage_rows(all_keys + (chunk + 1) % 2 * CHUNK * ROW_K, k, chunk + 1);
            if (warp == 0) next_g = two_of_g(g, sequence, head, first + CHUNK, lane);
        }
        close_copies();
        const elem* const keys = all_keys + chunk % 2 * CHUNK * ROW_K;
        const float(&sums_of)[CHUNK] = exponents[chunk % 2];

        // In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8.
        const unsigned rows[2] = {warp * 16 + lane / 4, warp * 16 + lane / 4 + 8};
        const float exponent[2] = {sums_of[rows[0]], sums_of[rows[1]]};
        const float decays[2] = {exponential(exponent[0]), exponential(exponent[1])};
        {
            float sums[ACROSS][4] = {};
            if (chunk > 0) {
#pragma unroll
                for (unsigned n = 0; n < DK / 16; n++) {
                    unsigned left[4];
                    load_matrices(left, keys + (warp * 16 + lane % 16) * ROW_K + n * 16 + lane / 16 * 8);
                    add_rows(sums, left, before + n * 16 * ROW_V, lane);
                }
            }
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                const elem* const from = values + rows[i] * ROW_V + quarter * 2;
#pragma unroll
                for (unsigned m = 0; m < ACROSS; m++) {
                    const float2 value = widened(*reinterpret_cast<const unsigned*>(from + m * 8));
                    sums[m][2 * i] = fmaf(-decays[i], sums[m][2 * i], value.x);
                    sums[m][2 * i + 1] = fmaf(-decays[i], sums[m][2 * i + 1], value.y);
                }
            }
            store_rows(rest + warp * 16 * ROW_V, sums, lane);
        }
        __syncthreads();

        // Sixteen earlier tokens at a time. Those behind the warp's own are later.
        {
            float sums[ACROSS][4] = {};
#pragma unroll
            for (unsigned j = 0; j < CHUNK / 16; j++) {
                if (j > warp) break;
                unsigned left[4];
                load_matrices_transposed(left, factors + (j * 16 + lane / 16 * 8 + lane % 8) * ROW_C + warp * 16 + lane / 8 % 2 * 8);
                add_rows(sums, left, rest + j * 16 * ROW_V, lane);
            }
            store_rows(deltas + warp * 16 * ROW_V, sums, lane);
        }
        // All but the next keys.
        wait_for_copies<1>();
        __syncthreads();
        if (!last) stage_values(chunk + 1);
        close_copies();

        {
            unsigned own_q[DK / 16][4];
#pragma unroll
            for (unsigned n = 0; n < DK / 16; n++) {
                load_matrices(own_q[n], queries + (warp * 16 + lane % 16) * ROW_K + n * 16 + lane / 16 * 8);
            }
            float sums[ACROSS][4] = {};
            if (chunk > 0) {
#pragma unroll
                for (unsigned n = 0; n < DK / 16; n++) add_rows(sums, own_q[n], before + n * 16 * ROW_V, lane);
#pragma unroll
                for (unsigned m = 0; m < ACROSS; m++) {
#pragma unroll
                    for (unsigned e = 0; e < 4; e++) sums[m][e] *= decays[e / 2];
                }
            }
#pragma unroll
            for (unsigned j = 0; j < CHUNK / 16; j++) {
                if (j > warp) break;
                float scores[2][4] = {};
#pragma unroll
                for (unsigned n = 0; n < DK / 16; n++) {
                    unsigned right[4];
                    load_matrices(right, keys + (j * 16 + lane / 16 * 8 + lane % 8) * ROW_K + n * 16 + lane / 8 % 2 * 8);
                    multiply_add(scores[0], own_q[n], right[0], right[1]);
                    multiply_add(scores[1], own_q[n], right[2], right[3]);
                }
#pragma unroll
                for (unsigned half = 0; half < 2; half++) {
#pragma unroll
                    for (unsigned e = 0; e < 4; e++) {
                        const unsigned token = j * 16 + half * 8 + quarter * 2 + e % 2;
                        const float weight = exponential(exponent[e / 2] - sums_of[token]);
                        scores[half][e] = token <= rows[e / 2] ? scores[half][e] * weight : 0.0f;
                    }
                }
                // Results of the first GEMM have the operand layout of the second.
                const unsigned left[4] = {pack(scores[0][0], scores[0][1]), pack(scores[0][2], scores[0][3]),
                                          pack(scores[1][0], scores[1][1]), pack(scores[1][2], scores[1][3])};
                add_rows(sums, left, deltas + j * 16 * ROW_V, lane);
            }
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                if (first + rows[i] >= S) continue;
                elem* const to = out + ((sequence * S + first + rows[i]) * HEADS + head) * DV + column + quarter * 2;
#pragma unroll
                for (unsigned m = 0; m < ACROSS; m++) {
                    *reinterpret_cast<unsigned*>(to + m * 8) = pack(SCALE * sums[m][2 * i], SCALE * sums[m][2 * i + 1]);
                }
            }
        }

        const float total = sums_of[CHUNK - 1], decay = exponential(total);
        // Rows of the state and tokens are transposed in K. A lane has pairs of tokens of one row.
        unsigned weights[CHUNK / 16][2];
#pragma unroll
        for (unsigned n = 0; n < CHUNK / 16; n++) {
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                const unsigned token = n * 16 + half * 8 + quarter * 2;
                weights[n][half] = pack(exponential(total - sums_of[token]), exponential(total - sums_of[token + 1]));
            }
        }
#pragma unroll
        for (unsigned t = 0; t < OWN_ROWS; t++) {
            // Warps without a tile repeat the last one, and do not use it.
            const unsigned tile = min(warp + 4 * t, ALL_ROWS - 1);
#pragma unroll
            for (unsigned m = 0; m < ACROSS; m++) {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) states[t][m][e] *= decay;
            }
#pragma unroll
            for (unsigned n = 0; n < CHUNK / 16; n++) {
                unsigned left[4];
                load_matrices_transposed(left, keys + (n * 16 + lane / 16 * 8 + lane % 8) * ROW_K + tile * 16 + lane / 8 % 2 * 8);
#pragma unroll
                for (unsigned i = 0; i < 4; i++) left[i] = times_pair(left[i], weights[n][i / 2]);
                add_rows(states[t], left, deltas + n * 16 * ROW_V, lane);
            }
        }

        if (!last) {
            if (warp == 0) fill_exponents(exponents[(chunk + 1) % 2], next_g, lane);
            // Ends the reads of the queries and of the state's copy.
            __syncthreads();
            stage_rows(queries, q, chunk + 1);
#pragma unroll
            for (unsigned t = 0; t < OWN_ROWS; t++) {
                const unsigned tile = warp + 4 * t;
                if (tile < ALL_ROWS) store_rows(before + tile * 16 * ROW_V, states[t], lane);
            }
        }
        close_copies();
    }

#pragma unroll
    for (unsigned t = 0; t < OWN_ROWS; t++) {
        const unsigned tile = warp + 4 * t;
        if (tile >= ALL_ROWS) break;
#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
            float* const to = state + (of_head * DK + tile * 16 + lane / 4 + 8 * i) * DV + column + quarter * 2;
#pragma unroll
            for (unsigned m = 0; m < ACROSS; m++) {
                *reinterpret_cast<float2*>(to + m * 8) = make_float2(states[t][m][2 * i], states[t][m][2 * i + 1]);
            }
        }
    }
}

#endif

// Selective state-space model on tensor cores, chunk by chunk. The definition is in core/workloads/src/ops/ssm_scan.
//
// ssm_scan_mma  a block per head of a sequence and 64 columns of the head dim
//
// The state stays in the accumulators of four warps, each with every fourth sixteen of its rows, and a copy of 16 bits in shared memory
// is the factor of the next chunk's results. A warp has sixteen tokens of a chunk as rows of the results:
//
//   out   = e^c · (C · state) + (scores · weights) · X
//   state = e^total · state + (B · weights)ᵀ · X
//
// Tokens of the next chunk are copied to the other half of the stages meanwhile, and the first warp fetches their steps.

#include "lib/async_copy.cuh"
#include "lib/exponential.cuh"
#include "lib/mma.cuh"
#include "ssm_scan/chunk.cuh"

#if __CUDA_ARCH__ >= 800 && !defined(ELEM_F32)

static_assert(THREADS == 128 && N % 16 == 0 && D % 64 == 0, "four warps of sixteen tokens");

// Elements of a row in shared memory: a vector more, against bank conflicts.
constexpr unsigned ROW_N = N + 8, ROW_D = 64 + 8;
// Elements of a stage: a chunk of B, of C and of X.
constexpr unsigned STAGE = CHUNK * (2 * ROW_N + ROW_D);
// Sixteens of the state's rows, of all warps and of one.
constexpr unsigned ALL_ROWS = N / 16, OWN_ROWS = (ALL_ROWS + 3) / 4;

// Product of two pairs of elements.
__device__ __forceinline__ unsigned times_pair(unsigned a, unsigned b) {
    unsigned product;
#if defined(ELEM_F16)
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
#else
    // Compute capability 8.0 has no multiplication of bf16 alone. The addend is -0.
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
    return product;
}

__device__ __forceinline__ float2 widened(unsigned pair) {
    return make_float2(load(elem{(unsigned short)pair}), load(elem{(unsigned short)(pair >> 16)}));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_scan_mma(const elem* __restrict__ x, const elem* __restrict__ dt, const elem* __restrict__ b, const elem* __restrict__ c,
                 const float* __restrict__ heads, elem* __restrict__ out, float* __restrict__ state) {
    extern __shared__ uint4 shared[];
    elem* const stages = reinterpret_cast<elem*>(shared);
    elem* const before = stages + 2 * STAGE;
    Chunk* const chunks = reinterpret_cast<Chunk*>(before + N * ROW_D);
    constexpr unsigned across = D / 64;
    const u64 index = flat_workgroup(), of_head = index / across, sequence = of_head / HEADS;
    if (of_head >= (u64)SEQUENCES * HEADS) return;
    const unsigned column = index % across * 64, head = of_head % HEADS, of_group = head / (HEADS / GROUPS);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane % 4;
    const float rate = heads[head], skip = heads[HEADS + head], bias = heads[2 * HEADS + head];

    const auto stage = [&](unsigned chunk) {
        elem* const to = stages + chunk % 2 * STAGE;
        const unsigned first = chunk * CHUNK;
        // Tokens behind the last are zeros.
#pragma unroll
        for (unsigned e = threadIdx.x; e < CHUNK * (N / 8); e += THREADS) {
            const unsigned token = e / (N / 8), piece = e % (N / 8) * 8;
            const bool inside = first + token < S;
            const u64 from = ((sequence * S + min(first + token, S - 1)) * GROUPS + of_group) * N + piece;
            copy_async(to + token * ROW_N + piece, b + from, inside);
            copy_async(to + (CHUNK + token) * ROW_N + piece, c + from, inside);
        }
#pragma unroll
        for (unsigned e = threadIdx.x; e < CHUNK * 8; e += THREADS) {
            const unsigned token = e / 8, piece = e % 8 * 8;
            const u64 from = ((sequence * S + min(first + token, S - 1)) * HEADS + head) * D + column + piece;
            copy_async(to + 2 * CHUNK * ROW_N + token * ROW_D + piece, x + from, first + token < S);
        }
        close_copies();
    };
    stage(0);
    float2 next_dt;
    if (warp == 0) {
        next_dt = two_of_dt(dt, sequence, head, 0, lane);
        chunks[0].fill(next_dt, rate, bias, 0, lane);
    }

    float states[OWN_ROWS][8][4] = {};
#pragma unroll 1
    for (unsigned chunk = 0; chunk < CHUNKS; chunk++) {
        const unsigned first = chunk * CHUNK;
        wait_for_copies<0>();
        // Also ends all uses of the other stage, and the stores of the state's copy.
        __syncthreads();
        if (chunk + 1 < CHUNKS) {
            stage(chunk + 1);
            if (warp == 0) next_dt = two_of_dt(dt, sequence, head, first + CHUNK, lane);
        }
        const elem *const b_rows = stages + chunk % 2 * STAGE, *const c_rows = b_rows + CHUNK * ROW_N;
        const elem* const x_rows = c_rows + CHUNK * ROW_N;
        const Chunk& now = chunks[chunk % 2];

        // Fragments of the warp's sixteen rows of C.
        unsigned own_c[N / 16][4];
#pragma unroll
        for (unsigned k = 0; k < N / 16; k++) load_matrices(own_c[k], c_rows + (warp * 16 + lane % 16) * ROW_N + k * 16 + lane / 16 * 8);
        // In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8.
        const unsigned rows[2] = {warp * 16 + lane / 4, warp * 16 + lane / 4 + 8};
        const float exponents[2] = {now.exponents[rows[0]], now.exponents[rows[1]]};

        float sums[8][4] = {};
        if (chunk > 0) {
#pragma unroll
            for (unsigned k = 0; k < N / 16; k++) {
#pragma unroll
                for (unsigned m = 0; m < 8; m += 2) {
                    unsigned right[4];
                    load_matrices_transposed(right, before + (k * 16 + lane % 16) * ROW_D + m * 8 + lane / 16 * 8);
                    multiply_add(sums[m], own_c[k], right[0], right[1]);
                    multiply_add(sums[m + 1], own_c[k], right[2], right[3]);
                }
            }
            const float decays[2] = {exponential(exponents[0]), exponential(exponents[1])};
#pragma unroll
            for (unsigned m = 0; m < 8; m++) {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) sums[m][e] *= decays[e / 2];
            }
        }

        // Sixteen earlier tokens at a time. Those behind the warp's own are later.
#pragma unroll
        for (unsigned j = 0; j < CHUNK / 16; j++) {
            if (j > warp) break;
            float scores[2][4] = {};
#pragma unroll
            for (unsigned k = 0; k < N / 16; k++) {
                unsigned right[4];
                load_matrices(right, b_rows + (j * 16 + lane / 16 * 8 + lane % 8) * ROW_N + k * 16 + lane / 8 % 2 * 8);
                multiply_add(scores[0], own_c[k], right[0], right[1]);
                multiply_add(scores[1], own_c[k], right[2], right[3]);
            }
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    const unsigned token = j * 16 + half * 8 + quarter * 2 + e % 2;
                    const float weight = exponential(exponents[e / 2] - now.exponents[token]) * now.steps[token];
                    scores[half][e] = token <= rows[e / 2] ? scores[half][e] * weight : 0.0f;
                }
            }
            // Results of the first GEMM have the operand layout of the second.
            const unsigned left[4] = {pack(scores[0][0], scores[0][1]), pack(scores[0][2], scores[0][3]),
                                      pack(scores[1][0], scores[1][1]), pack(scores[1][2], scores[1][3])};
#pragma unroll
            for (unsigned m = 0; m < 8; m += 2) {
                unsigned right[4];
                load_matrices_transposed(right, x_rows + (j * 16 + lane % 16) * ROW_D + m * 8 + lane / 16 * 8);
                multiply_add(sums[m], left, right[0], right[1]);
                multiply_add(sums[m + 1], left, right[2], right[3]);
            }
        }

#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
            if (first + rows[i] >= S) continue;
            elem* const to = out + ((sequence * S + first + rows[i]) * HEADS + head) * D + column + quarter * 2;
#pragma unroll
            for (unsigned m = 0; m < 8; m++) {
                const float2 input = widened(*reinterpret_cast<const unsigned*>(x_rows + rows[i] * ROW_D + m * 8 + quarter * 2));
                *reinterpret_cast<unsigned*>(to + m * 8) =
                    pack(fmaf(skip, input.x, sums[m][2 * i]), fmaf(skip, input.y, sums[m][2 * i + 1]));
            }
        }

        const float total = now.exponents[CHUNK - 1], decay = exponential(total);
        // Rows of the state and tokens are transposed in B. A lane has pairs of tokens of one row.
        unsigned weights[CHUNK / 16][2];
#pragma unroll
        for (unsigned k = 0; k < CHUNK / 16; k++) {
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                const unsigned token = k * 16 + half * 8 + quarter * 2;
                weights[k][half] = pack(exponential(total - now.exponents[token]) * now.steps[token],
                                        exponential(total - now.exponents[token + 1]) * now.steps[token + 1]);
            }
        }
#pragma unroll
        for (unsigned t = 0; t < OWN_ROWS; t++) {
            const unsigned tile = warp + 4 * t;
            if (tile >= ALL_ROWS) break;
#pragma unroll
            for (unsigned m = 0; m < 8; m++) {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) states[t][m][e] *= decay;
            }
        }
#pragma unroll
        for (unsigned k = 0; k < CHUNK / 16; k++) {
            unsigned left[OWN_ROWS][4];
#pragma unroll
            for (unsigned t = 0; t < OWN_ROWS; t++) {
                // Warps without a tile repeat the last one, and do not use it.
                const unsigned tile = min(warp + 4 * t, ALL_ROWS - 1);
                load_matrices_transposed(left[t], b_rows + (k * 16 + lane / 16 * 8 + lane % 8) * ROW_N + tile * 16 + lane / 8 % 2 * 8);
#pragma unroll
                for (unsigned i = 0; i < 4; i++) left[t][i] = times_pair(left[t][i], weights[k][i / 2]);
            }
#pragma unroll
            for (unsigned m = 0; m < 8; m += 2) {
                unsigned right[4];
                load_matrices_transposed(right, x_rows + (k * 16 + lane % 16) * ROW_D + m * 8 + lane / 16 * 8);
#pragma unroll
                for (unsigned t = 0; t < OWN_ROWS; t++) {
                    multiply_add(states[t][m], left[t], right[0], right[1]);
                    multiply_add(states[t][m + 1], left[t], right[2], right[3]);
                }
            }
        }

        if (chunk + 1 < CHUNKS) {
            if (warp == 0) chunks[(chunk + 1) % 2].fill(next_dt, rate, bias, first + CHUNK, lane);
            // Ends the reads of the copy of the state.
            __syncthreads();
#pragma unroll
            for (unsigned t = 0; t < OWN_ROWS; t++) {
                const unsigned tile = warp + 4 * t;
                if (tile >= ALL_ROWS) break;
#pragma unroll
                for (unsigned m = 0; m < 8; m++) {
#pragma unroll
                    for (unsigned i = 0; i < 2; i++) {
                        elem* const to = before + (tile * 16 + lane / 4 + 8 * i) * ROW_D + m * 8 + quarter * 2;
                        *reinterpret_cast<unsigned*>(to) = pack(states[t][m][2 * i], states[t][m][2 * i + 1]);
                    }
                }
            }
        }
    }

#pragma unroll
    for (unsigned t = 0; t < OWN_ROWS; t++) {
        const unsigned tile = warp + 4 * t;
        if (tile >= ALL_ROWS) break;
#pragma unroll
        for (unsigned m = 0; m < 8; m++) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                const u64 row = of_head * D + column + m * 8 + quarter * 2 + e % 2;
                state[row * N + tile * 16 + lane / 4 + e / 2 * 8] = states[t][m][e];
            }
        }
    }
}

#endif

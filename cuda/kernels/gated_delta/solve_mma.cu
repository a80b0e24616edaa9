// Inverse of the system of a chunk of the gated delta rule. See core/workloads/src/ops/gated_delta/mma.rs.
//
// gated_delta_solve_mma  a block per chunk and head; a warp has sixteen tokens as rows of the products of keys
//
// Rows of the result are earlier tokens, and columns later ones.

#include "gated_delta/chunk.cuh"
#include "gated_delta/system.cuh"
#include "lib/async_copy.cuh"
#include "lib/exponential.cuh"
#include "lib/mma.cuh"

#if __CUDA_ARCH__ >= 800 && !defined(ELEM_F32)

static_assert(THREADS == 128 && DK % 16 == 0, "four warps of sixteen tokens");

// Elements of a row in shared memory: a vector more, against bank conflicts.
constexpr unsigned ROW_K = DK + 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_solve_mma(const elem* __restrict__ k, const float* __restrict__ g, const elem* __restrict__ beta,
                          elem* __restrict__ inverse) {
    extern __shared__ uint4 shared[];
    __shared__ float exponents[CHUNK], betas[CHUNK];
    __shared__ float system[CHUNK * CHUNK];
    elem* const keys = reinterpret_cast<elem*>(shared);
    const u64 index = flat_workgroup(), sequence = index / HEADS / CHUNKS;
    if (index >= (u64)SEQUENCES * CHUNKS * HEADS) return;
    const unsigned head = index % HEADS, first = index / HEADS % CHUNKS * CHUNK;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane % 4;
    // Tokens behind the last are zeros.
#pragma unroll
    for (unsigned e = threadIdx.x; e < CHUNK * (DK / 8); e += THREADS) {
        const unsigned token = e / (DK / 8), piece = e % (DK / 8) * 8;
        const u64 from = ((sequence * S + min(first + token, S - 1)) * HEADS + head) * DK + piece;
        copy_async(keys + token * ROW_K + piece, k + from, first + token < S);
    }
    close_copies();
    if (warp == 0) fill_exponents(exponents, two_of_g(g, sequence, head, first, lane), lane);
    if (threadIdx.x < CHUNK) {
        const unsigned token = first + threadIdx.x;
        betas[threadIdx.x] = token < S ? load(beta[(sequence * S + token) * HEADS + head]) : 0.0f;
    }
    wait_for_copies<0>();
    __syncthreads();

    // In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8.
    const unsigned rows[2] = {warp * 16 + lane / 4, warp * 16 + lane / 4 + 8};
    // Sixteen earlier tokens at a time. Those behind the warp's own are later.
#pragma unroll
    for (unsigned j = 0; j < CHUNK / 16; j++) {
        if (j > warp) break;
        float products[2][4] = {};
#pragma unroll
        for (unsigned n = 0; n < DK / 16; n++) {
            unsigned left[4], right[4];
            load_matrices(left, keys + (warp * 16 + lane % 16) * ROW_K + n * 16 + lane / 16 * 8);
            load_matrices(right, keys + (j * 16 + lane / 16 * 8 + lane % 8) * ROW_K + n * 16 + lane / 8 % 2 * 8);
            multiply_add(products[0], left, right[0], right[1]);
            multiply_add(products[1], left, right[2], right[3]);
        }
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                const unsigned token = j * 16 + half * 8 + quarter * 2 + e % 2, row = rows[e / 2];
                if (token < row) {
                    const float decay = exponential(exponents[row] - exponents[token]);
                    system[row * CHUNK + token] = betas[row] * decay * products[half][e];
                }
            }
        }
    }
    __syncthreads();
    solve(system);
    unsigned* const to = reinterpret_cast<unsigned*>(inverse + index * CHUNK * CHUNK);
#pragma unroll 4
    for (unsigned e = threadIdx.x; e < CHUNK * CHUNK / 2; e += THREADS) {
        const unsigned j = e / (CHUNK / 2), i = e % (CHUNK / 2) * 2;
        to[e] = pack(betas[j] * one_of_inverse(system, j, i), betas[j] * one_of_inverse(system, j, i + 1));
    }
}

#endif

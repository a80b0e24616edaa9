// Factors of a chunk of the gated delta rule. See core/workloads/src/ops/gated_delta/chunked.rs.
//
// gated_delta_solve  a block per chunk and head: weighted scores of queries, and the inverse of the system of its tokens
//
// Rows of both results are earlier tokens, and columns later ones.

#include "gated_delta/chunk.cuh"
#include "gated_delta/system.cuh"
#include "ssm_scan/tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_solve(const elem* __restrict__ q, const elem* __restrict__ k, const float* __restrict__ g, const elem* __restrict__ beta,
                      float* __restrict__ inverse, float* __restrict__ scores) {
    __shared__ float exponents[CHUNK], betas[CHUNK];
    __shared__ float system[CHUNK * CHUNK];
    __shared__ Tiles tiles;
    const u64 index = flat_workgroup();
    if (index >= (u64)SEQUENCES * CHUNKS * HEADS) return;
    const unsigned head = index % HEADS, first = index / HEADS % CHUNKS * CHUNK;
    const u64 sequence = index / HEADS / CHUNKS;
    if (threadIdx.x < 32) fill_exponents(exponents, two_of_g(g, sequence, head, first, threadIdx.x), threadIdx.x);
    if (threadIdx.x < CHUNK) {
        const unsigned token = first + threadIdx.x;
        betas[threadIdx.x] = token < S ? load(beta[(sequence * S + token) * HEADS + head]) : 0.0f;
    }
    const unsigned later = threadIdx.x % QUADS * 4;
#pragma unroll
    for (unsigned queries = 0; queries < 2; queries++) {
        float sums[8][4] = {};
#pragma unroll 1
        for (unsigned depth = 0; depth < DK; depth += DEPTH) {
#pragma unroll
            for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
                const unsigned row = depth + e % DEPTH, token = first + e / DEPTH * 4, at = e % DEPTH * STRIDE + e / DEPTH;
                const float4 four = four_tokens(k, sequence, token, head, row);
                tiles.left[at] = four;
                tiles.right[at] = queries ? four_tokens(q, sequence, token, head, row) : four;
            }
            __syncthreads();
            tiles.add<0, 8, false>(sums);
            __syncthreads();
        }
#pragma unroll
        for (unsigned n = 0; n < 8; n++) {
            const unsigned j = row_of(n);
            float weighted[4];
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                weighted[e] = later + e < j ? 0.0f : expf(exponents[later + e] - exponents[j]) * sums[n][e];
            }
            if (queries) {
                reinterpret_cast<float4*>(scores)[(index * CHUNK + j) * QUADS + threadIdx.x % QUADS] =
                    make_float4(SCALE * weighted[0], SCALE * weighted[1], SCALE * weighted[2], SCALE * weighted[3]);
            } else {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    if (later + e > j) system[(later + e) * CHUNK + j] = betas[later + e] * weighted[e];
                }
            }
        }
    }
    // The barriers above end the stores of the system.
    solve(system);
#pragma unroll 4
    for (unsigned e = threadIdx.x; e < CHUNK * QUADS; e += THREADS) {
        const unsigned j = e / QUADS, i = e % QUADS * 4;
        reinterpret_cast<float4*>(inverse)[index * CHUNK * QUADS + e] =
            make_float4(betas[j] * one_of_inverse(system, j, i), betas[j] * one_of_inverse(system, j, i + 1),
                        betas[j] * one_of_inverse(system, j, i + 2), betas[j] * one_of_inverse(system, j, i + 3));
    }
}

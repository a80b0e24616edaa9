// Logits by warpgroups, from tensor maps: each warp stores the part of its rows in a tile, and no logit. The definition is in
// core/workloads/src/ops/linear_cross_entropy.

#include "lib/row_products.cuh"
#include "linear_cross_entropy/part.cuh"

constexpr unsigned SUMS = BLOCK_N / 2;

// Stores the parts of a thread's two rows. Where the tile is inside, its columns need no comparison.
template <bool inside>
__device__ __forceinline__ void store_parts(const Parts& to, const float (&logits)[SUMS], unsigned row, unsigned column) {
#pragma unroll
    for (unsigned r = 0; r < 2; r++) {
        const auto at = [](unsigned r, unsigned k) { return k / 2 * 4 + r * 2 + k % 2; };
        to.store<SUMS / 2, 4, inside>(
            row + threadIdx.x % 32 / 4 + r * 8, column / BLOCK_N, [&](unsigned k) { return logits[at(r, k)]; },
            [&](unsigned k) { return column + wgmma_column(at(r, k)); });
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_cross_entropy_wgmma(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
                               const unsigned* __restrict__ targets, float* __restrict__ parts, float* __restrict__ picked) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared, 0);
    row_products(x, w, ring, SameColumns{}, [&](unsigned rank, unsigned warp) {
        const Parts to{targets, parts, picked};
        consume<float>(ring, rank, warp, [&](const float(&logits)[SUMS], unsigned row, unsigned column) {
            if (column + BLOCK_N <= CLASSES) {
                store_parts<true>(to, logits, row, column);
            } else {
                store_parts<false>(to, logits, row, column);
            }
        });
    });
}

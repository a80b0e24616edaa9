// Gradients of a part of the logits by warpgroups, from tensor maps. FIRST is the class of their first column. The definition is in
// core/workloads/src/ops/linear_cross_entropy.

#include "lib/row_products.cuh"
#include "lib/store_rows.cuh"
#include "linear_cross_entropy/slope.cuh"

constexpr unsigned SUMS = BLOCK_N / 2;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_cross_entropy_wgmma_dlogits(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
                                       const unsigned* __restrict__ targets, const float* __restrict__ lse,
                                       const float* __restrict__ dloss, const __grid_constant__ CUtensorMap dlogits) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared, CONSUMERS * 4 * pieces_bytes);
    row_products(x, w, ring, SameColumns{}, [&](unsigned rank, unsigned warp) {
        unsigned char* const pieces = shared + STAGES * stage_bytes + warp * pieces_bytes;
        consume<float>(ring, rank, warp, [&](const float(&logits)[SUMS], unsigned row, unsigned column) {
            // This thread's two rows. Those outside are not stored.
            const unsigned own = row + threadIdx.x % 32 / 4;
            const Row upper(min(own, A_ROWS - 1), targets, lse, dloss), lower(min(own + 8, A_ROWS - 1), targets, lse, dloss);
            store_rows(dlogits, pieces, row, column, [&](unsigned i) {
                const Row& of_row = i / 2 % 2 == 0 ? upper : lower;
                const unsigned first = column + wgmma_column(i);
                return make_float2(of_row.slope(first, logits[i]), of_row.slope(first + 1, logits[i + 1]));
            });
        });
        if (threadIdx.x % 32 == 0) tma_wait_read<0>();
    });
}

// Gradients of bags added to the rows of their items, a piece per thread, each read once. The definition is in
// core/workloads/src/ops/embedding_bag.
//
// The order of additions varies from run to run, and with it the last bits of the sums.

#include "embedding_bag/bag.cuh"
#include "embedding/add.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_bag_scatter(const unsigned* __restrict__ index, const unsigned* __restrict__ offsets,
                          const elem* __restrict__ dout, float* __restrict__ sums
#if WEIGHTED
    , const float* __restrict__ weight
#endif
    ) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const of_bag mine = bag_at(at);
    const unsigned begin = offsets[mine.bag], end = offsets[mine.bag + 1];
    const piece whole = load_piece(dout, at);
    const float share = MEAN && begin < end ? 1.0f / (float)(end - begin) : 1.0f;
#pragma unroll 4
    for (unsigned item = begin; item < end; item++) {
        float factor = share;
#if WEIGHTED
        factor *= weight[item];
#endif
        piece x = whole;
#pragma unroll
        for (unsigned k = 0; k < WIDTH; k++) x.at[k] *= factor;
        add_piece(sums, (u64)index[item] * PIECES + mine.piece, x);
    }
}

// Each element of the gradients of maxima added to the winning row. The definition is in core/workloads/src/ops/embedding_bag.

#include "embedding_bag/bag.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_bag_won(const unsigned* __restrict__ index, const unsigned* __restrict__ winner,
                      const elem* __restrict__ dout, float* __restrict__ sums) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned item = winner[at];
    // An empty bag has no winner.
    if (item < ITEMS) atomicAdd(sums + (u64)index[item] * PIECES + bag_at(at).piece, load(dout[at]));
}

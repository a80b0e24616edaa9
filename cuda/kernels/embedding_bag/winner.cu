// Index of the item of each element of a bag's maximum: the first of the largest, or the last NaN. An empty bag has none, which
// is the largest 32-bit number. The definition is in core/workloads/src/ops/embedding_bag.

#include "embedding_bag/bag.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_bag_winner(const unsigned* __restrict__ index, const unsigned* __restrict__ offsets,
                         const elem* __restrict__ table, unsigned* __restrict__ winner) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const of_bag mine = bag_at(at);
    const unsigned begin = offsets[mine.bag], end = offsets[mine.bag + 1];
    unsigned best = 0xFFFFFFFFu;
    float largest = 0.0f;
    for (unsigned item = begin; item < end; item++) {
        const float x = load(table[(u64)index[item] * PIECES + mine.piece]);
        if (item == begin || x > largest || is_nan(x)) {
            best = item;
            largest = x;
        }
    }
    winner[at] = best;
}

// Bag of each item, or an invalid number outside all bags, and the item's share of its bag's mean. The definition is in
// core/workloads/src/ops/embedding_bag.

#include "lib/launch.cuh"
#include "lib/sorted.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_bag_places(const unsigned* __restrict__ sorted, unsigned* __restrict__ bag
#if MEAN
    , float* __restrict__ share
#endif
    ) {
    const u64 flat = flat_workgroup() * THREADS + threadIdx.x;
    if (flat >= ITEMS) return;
    const unsigned item = (unsigned)flat;
    // Bags tend to have similar sizes. The first bag that begins after the item follows the item's own.
    const unsigned guess = min(BAGS, (unsigned)((float)item * ((float)BAGS / (float)ITEMS)));
    const unsigned mine = first_at_least(sorted, item + 1, guess, BAGS + 1) - 1;
    bag[item] = mine;
#if MEAN
    share[item] = mine < BAGS ? 1.0f / (float)(sorted[mine + 1] - sorted[mine]) : 0.0f;
#endif
}

// Number of keys per digit in each stretch: first half of a pass of a radix sort. The definition is in core/ir/src/sort.rs.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    sort_count(const unsigned* __restrict__ keys, unsigned* __restrict__ counts) {
    __shared__ unsigned found[BINS];
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) found[bin] = 0;
    __syncthreads();
    for (unsigned tile = 0; tile < TILES; tile++) {
        const u64 at = ((u64)blockIdx.x * TILES + tile) * THREADS + threadIdx.x;
        // Integers: the count does not depend on the order.
        if (at < ITEMS) atomicAdd(&found[(keys[at] >> SHIFT) % BINS], 1u);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) counts[blockIdx.x * BINS + bin] = found[bin];
}

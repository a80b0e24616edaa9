// Histograms of all digits of the keys, for the passes of `onesweep`; keys are read once. The definition is in
// core/workloads/src/ops/sort_by_key.rs.

#include "lib/launch.cuh"

// Keys of a thread in flight.
constexpr unsigned batch = 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    sort_by_key_digits(const unsigned* __restrict__ keys, unsigned* __restrict__ told) {
    __shared__ unsigned found[PASSES * BINS];
    for (unsigned bin = threadIdx.x; bin < PASSES * BINS; bin += THREADS) found[bin] = 0;
    __syncthreads();
    for (u64 first = (u64)blockIdx.x * THREADS * batch; first < ITEMS; first += (u64)PARTS * THREADS * batch) {
        unsigned key[batch];
#pragma unroll
        for (unsigned i = 0; i < batch; i++) {
            const u64 at = first + i * THREADS + threadIdx.x;
            if (at < ITEMS) key[i] = keys[at];
        }
#pragma unroll
        for (unsigned i = 0; i < batch; i++) {
            if (first + i * THREADS + threadIdx.x >= ITEMS) break;
            // Integers: the count does not depend on the order.
#pragma unroll
            for (unsigned pass = 0; pass < PASSES; pass++) {
                atomicAdd(&found[pass * BINS + (key[i] >> 8 * pass) % BINS], 1u);
            }
        }
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < PASSES * BINS; bin += THREADS) {
        if (found[bin] != 0) atomicAdd(told + TICKETS + bin, found[bin]);
    }
}

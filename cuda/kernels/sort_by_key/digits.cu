// How often each value of each digit of the keys occurs: what all passes of `onesweep` begin with, of one reading. The definition
// is in core/workloads/src/ops/sort_by_key.rs.

#include "lib/launch.cuh"

// Keys of a thread that are under way together.
constexpr unsigned turn = 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    sort_by_key_digits(const unsigned* __restrict__ keys, unsigned* __restrict__ told) {
    __shared__ unsigned found[PASSES * BINS];
    for (unsigned bin = threadIdx.x; bin < PASSES * BINS; bin += THREADS) found[bin] = 0;
    __syncthreads();
    for (u64 first = (u64)blockIdx.x * THREADS * turn; first < ITEMS; first += (u64)PARTS * THREADS * turn) {
        unsigned key[turn];
#pragma unroll
        for (unsigned i = 0; i < turn; i++) {
            const u64 at = first + i * THREADS + threadIdx.x;
            if (at < ITEMS) key[i] = keys[at];
        }
#pragma unroll
        for (unsigned i = 0; i < turn; i++) {
            if (first + i * THREADS + threadIdx.x >= ITEMS) break;
            // Integers: whoever comes first, the count is the same.
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

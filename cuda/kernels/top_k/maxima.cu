// Largest key of each group of GROUP neighbours in a row; a thread has OWN groups. The definition is in
// core/workloads/src/ops/top_k.rs.

#include "top_k/groups.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    top_k_maxima(const elem* __restrict__ x, unsigned* __restrict__ maxima) {
    constexpr unsigned groups = ROWS * GROUPS;
    const u64 first = flat_workgroup() * (at_once * OWN) + threadIdx.x / LANES;
    float own[OWN];
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        // Threads past the last group read it, so that whole warps compare.
        const u64 at = first + i * at_once;
        const unsigned group = at < groups ? (unsigned)at : groups - 1;
        own[i] = own_of_group(x + (u64)(group / GROUPS) * COLUMNS, group % GROUPS);
    }
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned key = key_of_group(own[i]);
        if (threadIdx.x % LANES == 0 && first + i * at_once < groups) maxima[first + i * at_once] = key;
    }
}

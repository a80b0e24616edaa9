// The K largest of each row, by a block: the largest keys of its groups stay in shared memory. A thread has OWN groups in flight.
// The definition is in core/workloads/src/ops/top_k.rs.

#include "top_k/groups.cuh"
#include "top_k/select.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    top_k_fused(const elem* __restrict__ x, elem* __restrict__ values, unsigned* __restrict__ indices) {
    __shared__ unsigned maxima[GROUPS];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const elem* const of_row = x + row * COLUMNS;
    for (unsigned begin = 0; begin < GROUPS; begin += at_once * OWN) {
        const unsigned first = begin + threadIdx.x / LANES;
        float own[OWN];
#pragma unroll
        for (unsigned i = 0; i < OWN; i++) {
            // Threads past the last group read it, so that whole warps compare.
            const unsigned group = first + i * at_once;
            own[i] = own_of_group(of_row, group < GROUPS ? group : GROUPS - 1);
        }
#pragma unroll
        for (unsigned i = 0; i < OWN; i++) {
            const unsigned key = key_of_group(own[i]), group = first + i * at_once;
            if (threadIdx.x % LANES == 0 && group < GROUPS) maxima[group] = key;
        }
    }
    __syncthreads();
    select_row(of_row, [&](unsigned group) { return maxima[group]; }, values + row * K, indices + row * K);
}

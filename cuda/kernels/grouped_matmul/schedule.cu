// Table of tiles of HEIGHT rows, by one block: their number, then for each its group, its first row and the end of the group's rows.
// The definition is in core/workloads/src/ops/grouped_matmul.

#include "grouped_matmul/groups.cuh"
#include "lib/before.cuh"

// Groups per thread, neighbours.
constexpr unsigned own = (GROUPS + THREADS - 1) / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
    grouped_matmul_schedule(const unsigned* __restrict__ offsets, unsigned* __restrict__ tiles) {
    uint4* table = reinterpret_cast<uint4*>(tiles);
    __shared__ unsigned of_warps[THREADS / 32];
    // Tiles before each group, and of all.
    __shared__ unsigned before[GROUPS + 1];
    unsigned counts[own], sum = 0;
#pragma unroll
    for (unsigned i = 0; i < own; i++) {
        const unsigned group = threadIdx.x * own + i;
        counts[i] = 0;
        if (group < GROUPS) {
            counts[i] = (begin_of(offsets, group + 1) - begin_of(offsets, group) + HEIGHT - 1) / HEIGHT;
        }
        sum += counts[i];
    }
    unsigned start = sum_before(sum, of_warps);
#pragma unroll
    for (unsigned i = 0; i < own; i++) {
        const unsigned group = threadIdx.x * own + i;
        if (group < GROUPS) before[group] = start;
        start += counts[i];
        if (group == GROUPS - 1) before[GROUPS] = start;
    }
    __syncthreads();
    const unsigned count = before[GROUPS];
    if (threadIdx.x == 0) table[0] = make_uint4(count, 0, 0, 0);
    for (unsigned tile = threadIdx.x; tile < count; tile += THREADS) {
        // The last group with no more tiles before it.
        unsigned group = 0;
        for (unsigned end = GROUPS; group + 1 < end;) {
            const unsigned middle = group + (end - group) / 2;
            if (before[middle] <= tile) {
                group = middle;
            } else {
                end = middle;
            }
        }
        const unsigned row = begin_of(offsets, group) + (tile - before[group]) * HEIGHT;
        table[1 + tile] = make_uint4(group, row, begin_of(offsets, group + 1), 0);
    }
}

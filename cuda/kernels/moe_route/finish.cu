// Places of choices from the sorted order, and the first place of each expert. The definition is in
// core/workloads/src/ops/moe_route.

#include "lib/launch.cuh"
#include "lib/sorted.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    moe_route_finish(const unsigned* __restrict__ sorted, const unsigned* __restrict__ order, unsigned* __restrict__ slots,
                     unsigned* __restrict__ offsets) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at < ITEMS) slots[order[at]] = (unsigned)at;
    if (at <= EXPERTS) offsets[at] = first_at_least(sorted, (unsigned)at, 0, ITEMS);
}

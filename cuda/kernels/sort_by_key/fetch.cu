// Values gathered by the positions of the sorted keys. The definition is in core/workloads/src/ops/sort_by_key.rs.

#include "lib/launch.cuh"

extern "C" __global__ void sort_by_key_fetch(const unsigned* __restrict__ order, const unsigned* __restrict__ values,
                                             unsigned* __restrict__ carried) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at < ITEMS) carried[at] = values[order[at]];
}

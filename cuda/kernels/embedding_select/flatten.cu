// Indices shifted into one concatenated table, by the rows of the earlier tables. The definition is in
// core/workloads/src/ops/embedding_select.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_select_flatten(const unsigned* __restrict__ index, unsigned* __restrict__ shifted) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at < COUNT) shifted[at] = index[at] + (unsigned)at % TABLES * TABLE_ROWS;
}

// Rows of a table copied by index, one element per thread. The definition is in core/workloads/src/ops/embedding.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_naive(const unsigned* __restrict__ index, const elem* __restrict__ table, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at < COUNT) out[at] = table[(u64)index[at / COLUMNS] * COLUMNS + at % COLUMNS];
}

// Walsh-Hadamard transform of rows, one element of the result per thread. The definition is in core/workloads/src/ops/hadamard.rs.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    hadamard_naive(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned column = (unsigned)(at % COLUMNS);
    const elem* row = x + (at - column);
    float sum = 0.0f;
    for (unsigned j = 0; j < COLUMNS; j++) {
        const float term = load(row[j]);
        sum += __popc(j & column) % 2 ? -term : term;
    }
    out[at] = to_elem(sum * SCALE);
}

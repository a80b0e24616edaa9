// Transpose, one element per thread. The definition is in core/workloads/src/ops/transpose.rs.

#include "lib/launch.cuh"

extern "C" __global__ void transpose_naive(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= (u64)MATRICES * ROWS * COLUMNS) return;
    const u64 row = at / COLUMNS, column = at % COLUMNS;
    out[(row / ROWS * COLUMNS + column) * ROWS + row % ROWS] = x[at];
}

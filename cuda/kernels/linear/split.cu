// Sum of the PARTS of a GEMM that was split along K, in pieces. The definition is in core/workloads/src/ops/linear.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void linear_split(const float* __restrict__ parts, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece sum = load_floats(parts, at);
#pragma unroll
    for (unsigned part = 1; part < PARTS; part++) {
        const piece next = load_floats(parts, part * (u64)COUNT + at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += next.at[i];
    }
    store_piece(out, at, sum);
}

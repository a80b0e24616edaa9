// Copy, one element per thread. The definition is in core/workloads/src/ops/copy.rs.

#include "lib/launch.cuh"

extern "C" __global__ void copy_scalar(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index < N) out[index] = x[index];
}

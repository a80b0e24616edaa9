// Copy by a grid-stride loop: a fixed number of blocks, and four 16-byte accesses in flight per thread. The definition is in
// core/workloads/src/ops/copy.rs.

#include "copy/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void copy_stride(const elem* __restrict__ x, elem* __restrict__ out) {
    u64 index = flat_workgroup() * THREADS + threadIdx.x;
    // Padding blocks of a rectangular launch would copy the array's beginning again.
    if (index >= STRIDE) return;
    for (; index + 3 * (u64)STRIDE < whole_vectors; index += 4 * (u64)STRIDE) {
        uint4 vectors[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) vectors[i] = load_vector(x, index + i * (u64)STRIDE);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) store_vector(out, index + i * (u64)STRIDE, vectors[i]);
    }
    for (; index < whole_vectors; index += STRIDE) store_vector(out, index, load_vector(x, index));
    copy_rest(x, out, index);
}

// Read: a block sums one chunk, each thread vector after vector. The definition is in core/workloads/src/ops/read.rs.

#include "lib/launch.cuh"
#include "read/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) read_vec4(const elem* __restrict__ x, float* __restrict__ out) {
    const u64 chunk = flat_workgroup(), begin = chunk * CHUNK_VECTORS;
    if (begin >= VECTORS) return;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (begin + CHUNK_VECTORS <= N / PER_VECTOR) {
        // Not unrolled, so that one load is in flight; `stride4` has four.
#pragma unroll 1
        for (unsigned v = threadIdx.x; v < CHUNK_VECTORS; v += THREADS) add_vector(sum, load_vector(x, begin + v));
    } else {
        for (unsigned v = threadIdx.x; v < CHUNK_VECTORS; v += THREADS) add_last_vector(sum, x, begin + v);
    }
    write_sum(out, chunk, sum);
}

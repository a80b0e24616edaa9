// Read: four independent loads are in flight per thread before the first is added. The definition is in
// core/workloads/src/ops/read.rs.

#include "lib/launch.cuh"
#include "read/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    read_stride4(const elem* __restrict__ x, float* __restrict__ out) {
    static_assert(CHUNK_VECTORS % (4 * THREADS) == 0, "a chunk is a multiple of the block");
    const u64 chunk = flat_workgroup(), begin = chunk * CHUNK_VECTORS;
    if (begin >= VECTORS) return;
    float4 sums[4] = {};
    if (begin + CHUNK_VECTORS <= N / PER_VECTOR) {
        for (unsigned v = threadIdx.x; v < CHUNK_VECTORS; v += 4 * THREADS) {
            uint4 vectors[4];
#pragma unroll
            for (unsigned i = 0; i < 4; i++) vectors[i] = load_vector(x, begin + v + i * THREADS);
#pragma unroll
            for (unsigned i = 0; i < 4; i++) add_vector(sums[i], vectors[i]);
        }
    } else {
        for (unsigned v = threadIdx.x; v < CHUNK_VECTORS; v += THREADS) add_last_vector(sums[0], x, begin + v);
    }
#pragma unroll
    for (unsigned i = 1; i < 4; i++) {
        sums[0].x += sums[i].x;
        sums[0].y += sums[i].y;
        sums[0].z += sums[i].z;
        sums[0].w += sums[i].w;
    }
    write_sum(out, chunk, sums[0]);
}

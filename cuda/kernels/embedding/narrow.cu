// Sums of f32 to the element type, in pieces. The definition is in core/workloads/src/ops/embedding.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_narrow(const float* __restrict__ sums, elem* __restrict__ result) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at < COUNT) store_piece(result, at, load_floats(sums, at));
}

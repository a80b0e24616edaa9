// Resized images, a piece of neighbouring channels per thread (in nchw one element). The definition is in
// core/workloads/src/ops/resize/mod.rs.

#include "resize/of_output.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    resize_forward(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value;
    of_output(x, split(at, OH, OW), value.at);
    store_piece(out, at, value);
}

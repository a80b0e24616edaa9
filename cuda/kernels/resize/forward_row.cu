// Resized images in nchw, neighbours of a row per thread. The definition is in core/workloads/src/ops/resize/mod.rs.

#include "resize/of_output.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    resize_forward(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    Element own = split(at * WIDTH, OH, OW);
    piece values;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++, own.column++) {
        float one[1];
        of_output(x, own, one);
        values.at[i] = one[0];
    }
    store_piece(out, at, values);
}

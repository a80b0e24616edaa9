// Gradient of resized images in nchw, neighbours of a row per thread. The definition is in core/workloads/src/ops/resize/backward.rs.

#include "resize/of_pixel.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    resize_backward(const elem* __restrict__ dout, elem* __restrict__ dx) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    Element own = split(at * WIDTH, H, W);
    piece values;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++, own.column++) {
        float one[1];
        of_pixel(dout, own, one);
        values.at[i] = one[0];
    }
    store_piece(dx, at, values);
}

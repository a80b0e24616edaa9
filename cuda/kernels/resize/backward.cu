// Gradient of resized images, a piece of neighbouring channels per thread (in nchw one element). The definition is in
// core/workloads/src/ops/resize/backward.rs.

#include "resize/of_pixel.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    resize_backward(const elem* __restrict__ dout, elem* __restrict__ dx) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value;
    of_pixel(dout, split(at, H, W), value.at);
    store_piece(dx, at, value);
}

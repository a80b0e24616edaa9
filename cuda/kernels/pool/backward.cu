// Gradient of pooling, a piece of neighbouring channels per thread (in nchw one pixel). The definition is in
// core/workloads/src/ops/pool/backward.rs.

#include "pool/of_pixel.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    pool_backward(const elem* __restrict__ dout, elem* __restrict__ dx
#if LARGEST
    , const unsigned* __restrict__ place
#endif
    ) {
#if LARGEST
    const unsigned* const chosen = place;
#else
    const unsigned* const chosen = nullptr;
#endif
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece sum;
    of_pixel(dout, chosen, split(at, H, W), sum.at);
    store_piece(dx, at, sum);
}

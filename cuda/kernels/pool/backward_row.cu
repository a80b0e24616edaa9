// Gradient of pooling in nchw, neighbours of a row per thread. The definition is in core/workloads/src/ops/pool/backward.rs.

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
    Element own = split(at * WIDTH, H, W);
    piece sums;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++, own.column++) {
        float one[1];
        of_pixel(dout, chosen, own, one);
        sums.at[i] = one[0];
    }
    store_piece(dx, at, sums);
}

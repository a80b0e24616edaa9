// Implicit GEMM of filters and pixels: tiles of both in shared memory, sums in registers. The definition is in
// core/workloads/src/ops/conv2d.

#include "conv2d/pixels.cuh"

extern "C" __global__ void __launch_bounds__(256, 2)
    conv2d_implicit(const elem* __restrict__ source, const elem* __restrict__ w, elem* __restrict__ result
#if BIAS
    , const elem* __restrict__ bias
#endif
#if NORMALISED
    , const float* __restrict__ mean, const float* __restrict__ variance
    , const elem* __restrict__ gamma, const elem* __restrict__ beta
#endif
    ) {
#if !BIAS
    const elem* const bias = nullptr;
#endif
#if NORMALISED
    const Epilogue epilogue{bias, mean, variance, gamma, beta};
#else
    const Epilogue epilogue{bias};
#endif
    const uint3 tile = tile_of_block();
    if (tile.x >= GROUPS) return;
    Pixels pixels{source, w, result, epilogue, tile.x, tile.y, tile.z};
    pixels.begin();
    // Channels, which are rows, are neighbours where they come last.
    tile_product<LAST>(pixels, 0, TERMS);
}

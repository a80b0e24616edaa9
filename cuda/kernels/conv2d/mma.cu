// Implicit GEMM of filters and pixels on tensor cores, with warp-wide products of 16-bit floats. The definition is in
// core/workloads/src/ops/conv2d.

#include "conv2d/positions.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_mma(const elem* __restrict__ source, const elem* __restrict__ w, elem* __restrict__ result
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
    const TileOfBlock tile = tile_of_block();
    if (tile.group >= GROUPS) return;
    convolution_mma(source, w, tile, [&](unsigned row, unsigned column, float x, float y) {
        store2(result, epilogue, tile, row, column, x, y);
    });
}

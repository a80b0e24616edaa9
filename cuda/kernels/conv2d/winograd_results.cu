// Tiles of 2 x 2 results from the sums of Winograd's GEMMs: see core/workloads/src/ops/conv2d/winograd.rs.

#include "conv2d/winograd.cuh"

constexpr unsigned CHANNELS = GROUPS * TO_C, ALL = CHANNELS * TILES;

// Transforms four values to two, along a row or a column.
__device__ __forceinline__ float2 together(float x, float y, float z, float w) {
    return make_float2(x + y + z, y - z - w);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_winograd_results(const float* __restrict__ products, elem* __restrict__ result
#if BIAS
    , const elem* __restrict__ bias
#endif
    ) {
#if !BIAS
    const elem* const bias = nullptr;
#endif
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= ALL) return;
    const uint2 thing = of_thread((unsigned)index, CHANNELS);
    const unsigned at = element_of(thing.x, thing.y, TO_C);
    float2 rows[4];
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const float* const four = products + (4 * i) * ALL + at;
        rows[i] = together(four[0], four[ALL], four[2 * ALL], four[3 * ALL]);
    }
    const float2 left = together(rows[0].x, rows[1].x, rows[2].x, rows[3].x);
    const float2 right = together(rows[0].y, rows[1].y, rows[2].y, rows[3].y);
    const uint3 corner = corner_of(thing.y);
    const Epilogue epilogue{bias};
    const auto store = [&](unsigned row, unsigned column, float sum) {
        if (row >= TO_H || column >= TO_W) return;
        const unsigned place = result_at(thing.x / TO_C, thing.x % TO_C, corner.x, row * TO_W + column);
        result[place] = to_elem(epilogue(thing.x, sum));
    };
    store(corner.y, corner.z, left.x);
    store(corner.y, corner.z + 1, right.x);
    store(corner.y + 1, corner.z, left.y);
    store(corner.y + 1, corner.z + 1, right.y);
}

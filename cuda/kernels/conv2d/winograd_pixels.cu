// Tiles of 4 x 4 pixels, transformed for Winograd's GEMMs: see core/workloads/src/ops/conv2d/winograd.rs.

#include "conv2d/winograd.cuh"

constexpr unsigned CHANNELS = GROUPS * FROM_C, ALL = CHANNELS * TILES;

// Differences along a row or a column.
__device__ __forceinline__ float4 apart(float x, float y, float z, float w) {
    return make_float4(x - z, y + z, z - y, y - w);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_winograd_pixels(const elem* __restrict__ source, float* __restrict__ pixels) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= ALL) return;
    const uint2 thing = of_thread((unsigned)index, CHANNELS);
    const uint3 corner = corner_of(thing.y);
    // Coordinates before the image wrap around and exceed its extent.
    const unsigned row = corner.y - PAD, column = corner.z - PAD;
    float4 rows[4];
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        float x[4];
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            const bool inside = row + i < FROM_H && column + j < FROM_W;
            const unsigned position = (row + i) * FROM_W + column + j;
            x[j] = inside ? load(source[source_at(thing.x / FROM_C, thing.x % FROM_C, corner.x, position)]) : 0.0f;
        }
        rows[i] = apart(x[0], x[1], x[2], x[3]);
    }
    const unsigned at = element_of(thing.x, thing.y, FROM_C);
    const auto store = [&](unsigned j, const float4& down) {
        pixels[j * ALL + at] = down.x;
        pixels[(4 + j) * ALL + at] = down.y;
        pixels[(8 + j) * ALL + at] = down.z;
        pixels[(12 + j) * ALL + at] = down.w;
    };
    store(0, apart(rows[0].x, rows[1].x, rows[2].x, rows[3].x));
    store(1, apart(rows[0].y, rows[1].y, rows[2].y, rows[3].y));
    store(2, apart(rows[0].z, rows[1].z, rows[2].z, rows[3].z));
    store(3, apart(rows[0].w, rows[1].w, rows[2].w, rows[3].w));
}

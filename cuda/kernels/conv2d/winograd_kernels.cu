// Filters of 3 x 3, transformed for Winograd's GEMMs, one per pair of channels: see core/workloads/src/ops/conv2d/winograd.rs.

#include "conv2d/common.cuh"
#include "lib/launch.cuh"

// Transforms three values to four, along a row or a column.
__device__ __forceinline__ float4 spread_out(float x, float y, float z) {
    const float ends = x + z;
    return make_float4(x, 0.5f * (ends + y), 0.5f * (ends - y), z);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_winograd_kernels(const elem* __restrict__ w, float* __restrict__ kernels) {
    constexpr unsigned pairs = GROUPS * TO_C * FROM_C;
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= pairs) return;
    const unsigned index = (unsigned)at, m = index / FROM_C, c = index % FROM_C, group = m / TO_C, own = m % TO_C;
    float4 rows[3];
#pragma unroll
    for (unsigned i = 0; i < 3; i++) {
        rows[i] = spread_out(load(w[weight_at(group, own, c, 3 * i)]), load(w[weight_at(group, own, c, 3 * i + 1)]),
                             load(w[weight_at(group, own, c, 3 * i + 2)]));
    }
    const auto store = [&](unsigned j, const float4& column) {
        kernels[j * pairs + index] = column.x;
        kernels[(4 + j) * pairs + index] = column.y;
        kernels[(8 + j) * pairs + index] = column.z;
        kernels[(12 + j) * pairs + index] = column.w;
    };
    store(0, spread_out(rows[0].x, rows[1].x, rows[2].x));
    store(1, spread_out(rows[0].y, rows[1].y, rows[2].y));
    store(2, spread_out(rows[0].z, rows[1].z, rows[2].z));
    store(3, spread_out(rows[0].w, rows[1].w, rows[2].w));
}

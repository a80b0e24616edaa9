// Loss of each row from its parts, by 32 rows times DOWN threads that take every DOWN-th part. The definition is in
// core/workloads/src/ops/linear_cross_entropy.

#include "lib/launch.cuh"
#include "linear_cross_entropy/part.cuh"

extern "C" __global__ void __launch_bounds__(32 * DOWN)
    linear_cross_entropy_combine(const float* __restrict__ parts, const float* __restrict__ picked,
                                 const unsigned* __restrict__ targets, float* __restrict__ loss,
                                 float* __restrict__ lse) {
    __shared__ float2 partial[DOWN][32];
    const u64 row = flat_workgroup() * 32 + threadIdx.x;
    float2 whole = no_part();
    if (row < ROWS) {
#pragma unroll 4
        for (unsigned part = threadIdx.y; part < PARTS; part += DOWN) {
            whole = joined(whole, reinterpret_cast<const float2*>(parts)[(u64)part * ROWS + row]);
        }
    }
    partial[threadIdx.y][threadIdx.x] = whole;
    __syncthreads();
    if (threadIdx.y != 0 || row >= ROWS) return;
#pragma unroll
    for (unsigned i = 1; i < DOWN; i++) whole = joined(whole, partial[i][threadIdx.x]);
    const float total = log_sum(whole);
    lse[row] = total;
    loss[row] = targets[row] < CLASSES ? total - picked[row] : 0.0f;
}

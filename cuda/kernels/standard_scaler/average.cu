// Averages of columns: the sum of all parts, divided by the number of rows. The definition is in
// core/workloads/src/ops/standard_scaler.rs.

#include "lib/parts.cuh"

extern "C" __global__ void standard_scaler_average(const float* __restrict__ parts, float* __restrict__ average) {
    const unsigned column = (unsigned)flat_workgroup() * 32 + threadIdx.x;
    const float sum = parts_sum(parts, column);
    if (threadIdx.y == 0 && column < PART_COLUMNS) average[column] = SHARE * sum;
}

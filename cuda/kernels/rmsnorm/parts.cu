// Gradient of gamma from the parts of `backward`.

#include "lib/parts.cuh"

extern "C" __global__ void rmsnorm_parts(const float* __restrict__ parts, elem* __restrict__ dgamma) {
    const unsigned column = (unsigned)flat_workgroup() * 32 + threadIdx.x;
    const float sum = parts_sum(parts, column);
    if (threadIdx.y == 0 && column < COLUMNS) dgamma[column] = to_elem(sum);
}

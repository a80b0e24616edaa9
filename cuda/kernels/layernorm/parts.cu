// Gradients of gamma and beta from the parts of `backward`.

#include "lib/parts.cuh"

extern "C" __global__ void layernorm_parts(const float* __restrict__ parts, elem* __restrict__ dgamma,
                                           elem* __restrict__ dbeta) {
    const unsigned column = (unsigned)flat_workgroup() * 32 + threadIdx.x;
    const float sum = parts_sum(parts, column);
    if (threadIdx.y != 0) return;
    if (column < COLUMNS) {
        dgamma[column] = to_elem(sum);
    } else if (column < PART_COLUMNS) {
        dbeta[column - COLUMNS] = to_elem(sum);
    }
}

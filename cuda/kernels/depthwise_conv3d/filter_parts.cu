// Gradients of the filters and of the bias from the parts of `filter`.

#include "lib/parts.cuh"

extern "C" __global__ void depthwise_filter_parts(const float* __restrict__ parts, elem* __restrict__ dw
#if BIASED
    , elem* __restrict__ dbias
#endif
) {
    const unsigned column = (unsigned)flat_workgroup() * 32 + threadIdx.x;
    const float sum = parts_sum(parts, column);
    if (threadIdx.y != 0) return;
    if (column < FILTERS) dw[column] = to_elem(sum);
#if BIASED
    if (column >= FILTERS && column < PART_COLUMNS) dbias[column - FILTERS] = to_elem(sum);
#endif
}

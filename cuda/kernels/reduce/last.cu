// Result of all parts, by one block and always in the same order. The definition is in core/workloads/src/ops/reduce.rs.

#include "lib/elem.cuh"
#include "reduce/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_last(const float* __restrict__ parts, float* __restrict__ out) {
    float mine = LARGEST ? parts[0] : 0.0f;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < PARTS; i += THREADS) mine = joined(mine, parts[i]);
    mine = of_block(mine);
    if (threadIdx.x == 0) out[0] = mine;
}

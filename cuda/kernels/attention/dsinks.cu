// Gradient of attention's sinks. The definition is in core/workloads/src/ops/attention.
//
// attention_dsinks  a block per head of an item: the sink's share of each query's sum, times delta

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void attention_dsinks(const float* __restrict__ lse, const float* __restrict__ delta,
                                            const elem* __restrict__ sinks, elem* __restrict__ dsinks) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 head = flat_workgroup();
    if (head >= ITEM_HEADS) return;
    const float sink = load(sinks[head]);
    float sum = 0.0f;
    for (u64 i = threadIdx.x; i < (u64)HEADS / ITEM_HEADS * S; i += ROW_THREADS) {
        const u64 row = (i / S * ITEM_HEADS + head) * S + i % S;
        sum -= expf(sink - lse[row]) * delta[row];
    }
    sum = block_sum(sum, partial);
    if (threadIdx.x == 0) dsinks[head] = to_elem(sum);
}

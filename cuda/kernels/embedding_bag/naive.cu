// Rows of a table combined bag by bag, one element per thread. The definition is in core/workloads/src/ops/embedding_bag.

#include "embedding_bag/bag.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_bag_naive(const unsigned* __restrict__ index, const unsigned* __restrict__ offsets,
                        const elem* __restrict__ table, elem* __restrict__ out
#if WEIGHTED
    , const float* __restrict__ weight
#endif
    ) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const of_bag mine = bag_at(at);
    const unsigned begin = offsets[mine.bag], end = offsets[mine.bag + 1];
    float value = 0.0f;
    for (unsigned item = begin; item < end; item++) {
        float x = load(table[(u64)index[item] * PIECES + mine.piece]);
#if WEIGHTED
        x *= weight[item];
#endif
        value = MAX && item > begin ? maximum(value, x) : value + x;
    }
    out[at] = to_elem(MEAN && end > begin ? value / (float)(end - begin) : value);
}

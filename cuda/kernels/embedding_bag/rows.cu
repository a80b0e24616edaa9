// Rows of a table combined bag by bag, in pieces. The definition is in core/workloads/src/ops/embedding_bag.
//
// A thread has a piece of its bag's row, with the pieces of several items in flight: first their indices, then their rows. It
// waits twice per batch, not twice per item.

#include "embedding_bag/bag.cuh"

// Items in flight.
constexpr unsigned BATCH = 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_bag_rows(const unsigned* __restrict__ index, const unsigned* __restrict__ offsets,
                       const elem* __restrict__ table, elem* __restrict__ out
#if WEIGHTED
    , const float* __restrict__ weight
#endif
    ) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const of_bag mine = bag_at(at);
    const unsigned begin = offsets[mine.bag], end = offsets[mine.bag + 1];
    piece value = piece_of(MAX && begin < end ? negative_infinity() : 0.0f);
    for (unsigned item = begin; item < end; item += BATCH) {
        unsigned rows[BATCH];
        stored found[BATCH];
#if WEIGHTED
        float factors[BATCH];
#endif
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) {
            // Past the end of the bag the last item is read again. It is cached, and not counted.
            const unsigned known = min(item + i, end - 1);
            rows[i] = index[known];
#if WEIGHTED
            factors[i] = weight[known];
#endif
        }
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) found[i] = load_stored(table, (u64)rows[i] * PIECES + mine.piece);
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) {
            if (item + i >= end) break;
            piece x = widened(found[i]);
#pragma unroll
            for (unsigned k = 0; k < WIDTH; k++) {
#if WEIGHTED
                x.at[k] *= factors[i];
#endif
                value.at[k] = MAX ? maximum(value.at[k], x.at[k]) : value.at[k] + x.at[k];
            }
        }
    }
    if (MEAN && begin < end) {
#pragma unroll
        for (unsigned k = 0; k < WIDTH; k++) value.at[k] /= (float)(end - begin);
    }
    store_piece(out, at, value);
}

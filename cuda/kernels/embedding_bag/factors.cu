// Gradients of factors: product of each item's row with its bag's gradient, and zero outside all bags. LANES threads share an
// item. The definition is in core/workloads/src/ops/embedding_bag.

#include "lib/rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_bag_factors(const unsigned* __restrict__ index, const unsigned* __restrict__ bag,
                          const elem* __restrict__ table, const elem* __restrict__ dout, float* __restrict__ dweight) {
    const u64 group = flat_workgroup() * rows_at_once + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    // Threads without an item stay for the sums over their warp.
    const unsigned mine = group < ITEMS ? bag[group] : BAGS;
    float sum = 0.0f;
    if (mine < BAGS) {
        const u64 row = index[group];
#pragma unroll 4
        for (unsigned at = lane; at < PIECES; at += LANES) {
            const piece x = load_piece(table, row * PIECES + at), y = load_piece(dout, (u64)mine * PIECES + at);
#pragma unroll
            for (unsigned k = 0; k < WIDTH; k++) sum += x.at[k] * y.at[k];
        }
    }
    sum = row_sum(sum);
    if (group < ITEMS && lane == 0) dweight[group] = sum;
}

// Hashed features of a sample plus the table's row of its category, in pieces. The definition is in
// core/workloads/src/ops/train_step.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    train_step_lookup(const elem* __restrict__ hashed, const unsigned* __restrict__ category,
                      const elem* __restrict__ table, elem* __restrict__ x) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(hashed, at);
    const piece found = load_piece(table, (u64)category[at / PIECES] * PIECES + at % PIECES);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] += found.at[i];
    store_piece(x, at, value);
}

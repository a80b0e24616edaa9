// Gradients added to the looked-up rows, a piece per thread. The definition is in core/workloads/src/ops/embedding.
//
// The order of additions varies from run to run, and with it the last bits of the sums.

#include "lib/launch.cuh"
#include "embedding/add.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_scatter(const unsigned* __restrict__ index, const elem* __restrict__ dout, float* __restrict__ sums) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned item = FIRST + (unsigned)at / PIECES * STEP, piece_of_row = (unsigned)at % PIECES;
    const u64 row = index[item] + item % TABLES * TABLE_ROWS;
    add_piece(sums, row * PIECES + piece_of_row, load_piece(dout, (u64)item * PIECES + piece_of_row));
}

// Gradient of a table with one looked-up row per sample: the sum over the samples with that row. The definition is in
// core/workloads/src/ops/train_step.
//
// A block owns LANES columns of one row of the table. Samples are sorted by category, so that those of a row are contiguous. DOWN
// threads per column take every DOWN-th of them, in the order of the samples, and the first adds their sums. No two threads write
// the same element: nothing is atomic, and the result does not depend on timing.

#include "lib/launch.cuh"
#include "lib/sorted.cuh"

extern "C" __global__ void __launch_bounds__(LANES * DOWN)
    train_step_scatter(const unsigned* __restrict__ sorted, const unsigned* __restrict__ order,
                       const elem* __restrict__ dx, elem* __restrict__ dtable) {
    __shared__ float sums[DOWN][LANES];
    const u64 owned = flat_workgroup();
    if (owned >= (u64)CATEGORIES * STRETCHES) return;
    const unsigned mine = (unsigned)(owned / STRETCHES);
    const unsigned column = (unsigned)(owned % STRETCHES) * LANES + threadIdx.x;
    // Categories tend to have similar numbers of samples.
    const unsigned guess = min(ROWS, (unsigned)((float)mine * ((float)ROWS / (float)CATEGORIES)));
    const unsigned first = first_at_least(sorted, mine, guess, ROWS);
    const unsigned end = first_at_least(sorted, mine + 1, first, ROWS);
    float sum = 0.0f;
    if (column < COLUMNS) {
#pragma unroll 4
        for (u64 at = first + threadIdx.y; at < end; at += DOWN) sum += load(dx[(u64)order[at] * COLUMNS + column]);
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < COLUMNS) {
        float total = 0.0f;
#pragma unroll
        for (unsigned down = 0; down < DOWN; down++) total += sums[down][threadIdx.x];
        dtable[(u64)mine * COLUMNS + column] = to_elem(total);
    }
}

// The gradient of a table of which every sample took one row: the sum of the gradients of the samples that took it. The
// definition is in core/src/suite/workloads/train_step.
//
// A block owns THREADS columns of one row of the table. It goes through all samples, 32 for each of its threads at a time: a
// thread looks at its own and has a bit for each that took this row; then every thread adds its column of all of those, in one
// order. No two threads write the same element, so nothing is atomic, and the result does not depend on timing.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    train_step_scatter(const unsigned* __restrict__ category, const elem* __restrict__ dx, elem* __restrict__ dtable) {
    __shared__ unsigned takers[THREADS];
    const u64 owned = flat_workgroup();
    if (owned >= (u64)CATEGORIES * STRETCHES) return;
    const unsigned mine = (unsigned)(owned / STRETCHES);
    const unsigned column = (unsigned)(owned % STRETCHES) * THREADS + threadIdx.x;
    float sum = 0.0f;
    for (u64 first = 0; first < ROWS; first += 32 * THREADS) {
        unsigned bits = 0;
#pragma unroll
        for (unsigned i = 0; i < 32; i++) {
            // Neighbouring threads look at neighbouring samples.
            const u64 row = first + i * THREADS + threadIdx.x;
            if (row < ROWS && category[row] == mine) bits |= 1u << i;
        }
        takers[threadIdx.x] = bits;
        __syncthreads();
        for (unsigned other = 0; other < THREADS; other++) {
            for (unsigned left = takers[other]; left != 0; left &= left - 1) {
                const u64 row = first + (__ffs(left) - 1) * THREADS + other;
                if (column < COLUMNS) sum += load(dx[row * COLUMNS + column]);
            }
        }
        // Nobody overwrites the bits that somebody still reads.
        __syncthreads();
    }
    if (column < COLUMNS) dtable[(u64)mine * COLUMNS + column] = to_elem(sum);
}

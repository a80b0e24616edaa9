// Sums of rows that several stretches of sorted items have parts of. The definition is in
// core/workloads/src/ops/embedding/stages.rs.
//
// A block looks at the last row of a stretch. Where that begins there and goes on, it adds up the part that the stretch left of
// it and those of the stretches that it goes on in: DOWN threads a piece take every DOWN-th of them, and the first adds up.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/sorted.cuh"

constexpr unsigned DOWN = THREADS / LANES;

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_join(const unsigned* __restrict__ sorted, const float* __restrict__ parts, elem* __restrict__ dtable) {
    __shared__ piece sums[THREADS];
    const u64 group = flat_workgroup();
    if (group >= (u64)STRETCHES * ACROSS) return;
    const unsigned stretch = (unsigned)(group / ACROSS);
    const unsigned first = stretch * STRETCH, end = min(ITEMS, first + STRETCH);
    // All threads of the block find the same, and leave together.
    const unsigned row = sorted[end - 1];
    if (end == ITEMS || sorted[end] != row) return;
    if (first > 0 && sorted[first - 1] == row) return;

    const unsigned past = first_at_least(sorted, row + 1, end, ITEMS);
    const unsigned last = (past - 1) / STRETCH;
    const unsigned lane = threadIdx.x % LANES, down = threadIdx.x / LANES;
    const unsigned at = (unsigned)(group % ACROSS) * LANES + lane;
    piece sum = piece_of(0.0f);
    if (at < PIECES) {
        // Part 1 of the first stretch, part 0 of the others.
#pragma unroll 4
        for (unsigned part = stretch + down; part <= last; part += DOWN) {
            const piece other = load_floats(parts, ((u64)part * 2 + (part == stretch ? 1 : 0)) * PIECES + at);
#pragma unroll
            for (unsigned x = 0; x < WIDTH; x++) sum.at[x] += other.at[x];
        }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (down == 0 && at < PIECES) {
        for (unsigned other = 1; other < DOWN; other++) {
#pragma unroll
            for (unsigned x = 0; x < WIDTH; x++) sum.at[x] += sums[other * LANES + lane].at[x];
        }
        store_piece(dtable, (u64)row * PIECES + at, sum);
    }
}

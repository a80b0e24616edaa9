// Sums of rows whose sorted items span several stretches. The definition is in core/workloads/src/ops/embedding/stages.rs.
//
// A block takes the last row of a stretch. If the row begins there and continues, the block adds the stretch's part and those of
// the next stretches. DOWN threads per piece take every DOWN-th part, and the first adds their sums.

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
    // All threads of the block find the same row, and leave together.
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

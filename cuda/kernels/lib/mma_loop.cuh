// Main loop of GEMMs by warp-wide instructions: a warp adds up 64 x 64 results, in 4 x 8 fragments.
//
// Tiles of A and B have STAGES places in shared memory: one in use, the others being copied to.

#include "lib/async_copy.cuh"
#include "lib/mma.cuh"

// Adds `steps` steps to the sums. A step has `parts` parts, and its tiles begin at `staged + step % STAGES * size`. `stage(step)`
// begins to copy them, and closes a group of copies, also past the last step. `load(tiles, k, left, right)` loads the warp's
// fragments of part k.
template <unsigned steps, unsigned parts, unsigned size, typename T, typename Sum, typename Stage, typename Load>
__device__ __forceinline__ void mma_loop(Sum (&sums)[4][8][4], const T* staged, const Stage& stage, const Load& load) {
    // The fragments of the next part are loaded while these are multiplied.
    unsigned left[2][4][4], right[2][4][4];
#pragma unroll
    for (unsigned step = 0; step < STAGES - 1; step++) stage(step);
    for (unsigned step = 0; step < steps; step++) {
        wait_for_copies<STAGES - 2>();
        // Also ends the reads of the step before, whose place the next copies take.
        __syncthreads();
        const T* const tiles = staged + step % STAGES * size;
        load(tiles, 0, left[0], right[0]);
        stage(step + STAGES - 1);
#pragma unroll
        for (unsigned k = 0; k < parts; k++) {
            if (k + 1 < parts) load(tiles, k + 1, left[(k + 1) % 2], right[(k + 1) % 2]);
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
#pragma unroll
                for (unsigned j = 0; j < 8; j++) {
                    const auto& columns = right[k % 2][j / 2];
                    multiply_add(sums[i][j], left[k % 2][i], columns[j % 2 * 2], columns[j % 2 * 2 + 1]);
                }
            }
        }
    }
}

// Boxes of a matrix as the copy engine lays them in shared memory, byte for byte: two for each block, one after the other.

#include "hopper/patience.cuh"
#include "lib/tma.cuh"

extern "C" __global__ void tile(const __grid_constant__ CUtensorMap x, elem* __restrict__ out) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ mbarrier full;
    if (shared_address(memory) % 1024 != 0) __trap();
    if (threadIdx.x == 0) {
        tma_prefetch(x);
        mbarrier_begin(&full, 1);
        mbarrier_begun();
    }
    __syncthreads();
    const elem* box = (const elem*)memory;
    for (unsigned round = 0; round < 2; round++) {
        const unsigned row = blockIdx.y * 2 + round;
        if (threadIdx.x == 0) {
            mbarrier_expect(&full, ROWS * COLUMNS * sizeof(elem));
            // The first row and column of boxes begin before the matrix.
            tma_load(memory, x, &full, (int)(blockIdx.x * COLUMNS) - (int)COLUMNS_BEFORE, (int)(row * ROWS) - (int)ROWS_BEFORE);
        }
        wait_or_trap(&full, round);
        elem* to = out + (row * gridDim.x + blockIdx.x) * ROWS * COLUMNS;
        for (unsigned i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) to[i] = box[i];
        __syncthreads();
    }
}

// Each block of a cluster loads its part of a tile into all of them.

#include "hopper/patience.cuh"
#include "lib/tma.cuh"

extern "C" __global__ void multicast(const __grid_constant__ CUtensorMap x, elem* __restrict__ out) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ mbarrier full;
    const unsigned blocks = cluster_blocks(), rank = cluster_rank(), part = ROWS * COLUMNS * sizeof(elem);
    if (threadIdx.x == 0) {
        mbarrier_begin(&full, 1);
        mbarrier_begun();
    }
    // Nothing may arrive at a barrier that has not begun.
    cluster_sync();
    if (threadIdx.x == 0) {
        mbarrier_expect(&full, blocks * part);
        const unsigned first = blockIdx.x / blocks * blocks;
        tma_multicast(memory + rank * part, x, &full, (1u << blocks) - 1, 0, (int)((first + rank) * ROWS));
    }
    wait_or_trap(&full, 0);
    const elem* tile = (const elem*)memory;
    const unsigned count = blocks * ROWS * COLUMNS;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) out[blockIdx.x * count + i] = tile[i];
    cluster_sync();
}

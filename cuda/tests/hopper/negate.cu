// A tensor of two to five axes, box by box: loaded, changed by ordinary stores, and stored. T0 to T4 are a box's extents and
// C0 to C4 how many boxes there are, the fastest axis first.

#include "hopper/patience.cuh"
#include "lib/tma.cuh"

extern "C" __global__ void negate(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap out) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ mbarrier full;
    const unsigned block = blockIdx.x;
    const int a = (int)(block % C0 * T0), b = (int)(block / C0 % C1 * T1), c = (int)(block / (C0 * C1) % C2 * T2);
    const int d = (int)(block / (C0 * C1 * C2) % C3 * T3), e = (int)(block / (C0 * C1 * C2 * C3) * T4);
    if (threadIdx.x == 0) {
        mbarrier_begin(&full, 1);
        mbarrier_begun();
    }
    __syncthreads();
    constexpr unsigned COUNT = T0 * T1 * T2 * T3 * T4;
    if (threadIdx.x == 0) {
        mbarrier_expect(&full, COUNT * sizeof(elem));
        if constexpr (RANK == 2) tma_load(memory, x, &full, a, b);
        if constexpr (RANK == 3) tma_load(memory, x, &full, a, b, c);
        if constexpr (RANK == 4) tma_load(memory, x, &full, a, b, c, d);
        if constexpr (RANK == 5) tma_load(memory, x, &full, a, b, c, d, e);
    }
    wait_or_trap(&full, 0);
    elem* box = (elem*)memory;
    for (unsigned i = threadIdx.x; i < COUNT; i += blockDim.x) box[i] = to_elem(-load(box[i]));
    tma_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        if constexpr (RANK == 2) tma_store(out, memory, a, b);
        if constexpr (RANK == 3) tma_store(out, memory, a, b, c);
        if constexpr (RANK == 4) tma_store(out, memory, a, b, c, d);
        if constexpr (RANK == 5) tma_store(out, memory, a, b, c, d, e);
        tma_commit();
        tma_wait_read<0>();
        tma_wait<0>();
    }
}

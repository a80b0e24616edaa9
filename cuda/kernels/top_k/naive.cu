// The K largest of each row, by a block: a scan of the row for each of them finds the next one in order. The definition is in
// core/workloads/src/ops/top_k.rs.

#include "top_k/keys.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    top_k_naive(const elem* __restrict__ x, elem* __restrict__ values, unsigned* __restrict__ indices) {
    __shared__ u64 of_warps[THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const elem* const of_row = x + row * COLUMNS;
    u64 last = 0;
    for (unsigned rank = 0; rank < K; rank++) {
        u64 best = 0;
        for (unsigned at = threadIdx.x; at < COLUMNS; at += THREADS) {
            const u64 other = entry_of(key_of(load(of_row[at])), at);
            if ((rank == 0 || other < last) && other > best) best = other;
        }
        for (unsigned step = 16; step > 0; step /= 2) {
            const u64 other = __shfl_xor_sync(ALL, best, step);
            best = other > best ? other : best;
        }
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
        __syncthreads();
        for (unsigned warp = 0; warp < THREADS / 32; warp++) best = of_warps[warp] > best ? of_warps[warp] : best;
        last = best;
        __syncthreads();
        if (threadIdx.x == 0) {
            values[row * K + rank] = of_row[place_of(best)];
            indices[row * K + rank] = place_of(best);
        }
    }
}

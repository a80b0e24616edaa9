// Mean and variance of each column from those of strips: blocks of 32 neighbouring columns times DOWN threads that take every
// DOWN-th strip. The definition is in core/src/suite/workloads/standard_scaler.rs.

#include "lib/launch.cuh"

// Rows seen, their mean, and the sum of squares around it.
struct Moments {
    float count, middle, around;
};

__device__ __forceinline__ Moments merged(const Moments& a, const Moments& b) {
    const float all = a.count + b.count;
    if (all == 0.0f) return a;
    const float apart = b.middle - a.middle, share = b.count / all;
    return Moments{all, a.middle + apart * share, a.around + b.around + apart * apart * (a.count * share)};
}

extern "C" __global__ void __launch_bounds__(32 * DOWN)
    standard_scaler_merge(const float* __restrict__ parts, float* __restrict__ mean, float* __restrict__ variance) {
    __shared__ Moments of_threads[DOWN][32];
    const u64 column = flat_workgroup() * 32 + threadIdx.x;
    Moments mine = {0.0f, 0.0f, 0.0f};
    if (column < COLUMNS) {
#pragma unroll 4
        for (unsigned part = threadIdx.y; part < PARTS; part += DOWN) {
            const float rows = (float)min(STRIP, ROWS - part * STRIP);
            const u64 at = 2 * (u64)part * COLUMNS + column;
            mine = merged(mine, Moments{rows, parts[at], parts[at + COLUMNS]});
        }
    }
    of_threads[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.y != 0 || column >= COLUMNS) return;
    for (unsigned down = 1; down < DOWN; down++) mine = merged(mine, of_threads[down][threadIdx.x]);
    mean[column] = mine.middle;
    variance[column] = mine.around / (float)ROWS;
}

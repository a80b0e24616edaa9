// Mean and variance of each column from those of strips: blocks of ACROSS neighbouring columns times DOWN threads that take every
// DOWN-th strip. The definition is in core/workloads/src/ops/standard_scaler.rs. Measurements:
// docs/notebook/2026-11-28-kernel-notes.md.

#include "lib/launch.cuh"

// Number of rows, their mean, and the sum of squared distances from it.
struct Moments {
    float count, middle, around;
};

__device__ __forceinline__ Moments merged(const Moments& a, const Moments& b) {
    const float all = a.count + b.count;
    if (all == 0.0f) return a;
    const float apart = b.middle - a.middle, share = b.count / all;
    return Moments{all, a.middle + apart * share, a.around + b.around + apart * apart * (a.count * share)};
}

// Strips of a thread in flight.
constexpr unsigned batch = 8;

extern "C" __global__ void __launch_bounds__(ACROSS* DOWN)
    standard_scaler_merge(const float* __restrict__ parts, float* __restrict__ mean, float* __restrict__ variance) {
    static_assert((DOWN & (DOWN - 1)) == 0, "threads are merged by halves");
    __shared__ Moments of_threads[DOWN][ACROSS];
    const u64 column = flat_workgroup() * ACROSS + threadIdx.x;
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (unsigned first = threadIdx.y; column < COLUMNS && first < PARTS; first += batch * DOWN) {
        Moments own[batch];
#pragma unroll
        for (unsigned i = 0; i < batch; i++) {
            const unsigned part = first + i * DOWN;
            own[i] = Moments{0.0f, 0.0f, 0.0f};
            if (part < PARTS) {
                const u64 at = 2 * (u64)part * COLUMNS + column;
                own[i] = Moments{(float)min(STRIP, ROWS - part * STRIP), parts[at], parts[at + COLUMNS]};
            }
        }
#pragma unroll
        for (unsigned apart = 1; apart < batch; apart *= 2) {
#pragma unroll
            for (unsigned i = 0; i + apart < batch; i += 2 * apart) own[i] = merged(own[i], own[i + apart]);
        }
        mine = merged(mine, own[0]);
    }
    of_threads[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
#pragma unroll
    for (unsigned half = DOWN / 2; half > 0; half /= 2) {
        if (threadIdx.y < half) {
            mine = merged(mine, of_threads[threadIdx.y + half][threadIdx.x]);
            of_threads[threadIdx.y][threadIdx.x] = mine;
        }
        __syncthreads();
    }
    if (threadIdx.y != 0 || column >= COLUMNS) return;
    mean[column] = mine.middle;
    variance[column] = mine.around / (float)ROWS;
}

// Reduction in parts: PARTS blocks process all pieces, with four loads in flight, and each stores its part. The definition is in
// core/workloads/src/ops/reduce.rs.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "reduce/common.cuh"

__device__ __forceinline__ void join(piece& mine, const stored& more) {
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) mine.at[i] = joined(mine.at[i], load(more.at[i]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_parts(const elem* __restrict__ x, float* __restrict__ parts) {
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    constexpr u64 stride = (u64)PARTS * THREADS;
    // Any element is a valid initial maximum.
    piece mine = piece_of(LARGEST ? load(x[0]) : 0.0f);
    u64 at = part * THREADS + threadIdx.x;
    for (; at + 3 * stride < COUNT; at += 4 * stride) {
        stored more[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) more[i] = load_stored(x, at + i * stride);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) join(mine, more[i]);
    }
    for (; at < COUNT; at += stride) join(mine, load_stored(x, at));
    float all = mine.at[0];
#pragma unroll
    for (unsigned i = 1; i < WIDTH; i++) all = joined(all, mine.at[i]);
    all = of_block(all);
    if (threadIdx.x == 0) parts[part] = all;
}

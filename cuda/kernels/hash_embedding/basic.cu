// Hash embedding by atomic additions, in two stages for each window of the output: OWNED groups from FIRST on.
//
// hash_embedding_zero     writes zeros over the window, in pieces
// hash_embedding_scatter  one thread per row adds the row's signed weight to its column, if its group is in the window
//
// Rows may have any order. The order of additions varies, and with it the last bits. Measurements:
// docs/notebook/2026-11-28-kernel-notes.md.

#include "hash_embedding/hash.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) hash_embedding_zero(float* __restrict__ out) {
    constexpr u64 pieces = (u64)OWNED * DIM / WIDTH, begin = (u64)FIRST * DIM / WIDTH;
    const u64 first = flat_workgroup() * (THREADS * CLEARED) + threadIdx.x;
#pragma unroll
    for (unsigned i = 0; i < CLEARED; i++) {
        const u64 at = first + i * THREADS;
        if (at < pieces) store_floats(out, begin + at, piece_of(0.0f));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    hash_embedding_scatter(float* __restrict__ out, const unsigned* __restrict__ id, const unsigned* __restrict__ group,
                           const float* __restrict__ weight) {
    const u64 row = flat_workgroup() * THREADS + threadIdx.x;
    if (row >= ROWS) return;
    const unsigned mine = group[row], h = hashed(id[row]);
    const float x = weight[row];
    if (mine - FIRST < OWNED) atomicAdd(out + (u64)mine * DIM + column_of(h), signed_by(h, x));
}

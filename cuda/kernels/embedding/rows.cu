// Rows of tables copied by index, in pieces of WIDTH elements. The definition is in core/workloads/src/ops/embedding.
//
// embedding_rows  AT_ONCE pieces of up to sixteen bytes per thread: all indices, then all loads, then all stores. A thread waits
//                 once for each kind. Stores are streaming, so that they leave the cache before the tables.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Index of an item with a row.
__device__ __forceinline__ unsigned item_at(unsigned i) { return FIRST + i * STEP; }

__device__ __forceinline__ void store_once(elem* to, u64 at, const stored& x) {
    if constexpr (sizeof(stored) == 16) {
        __stcs(reinterpret_cast<uint4*>(to) + at, *reinterpret_cast<const uint4*>(&x));
    } else {
        reinterpret_cast<stored*>(to)[at] = x;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_rows(const unsigned* __restrict__ index, const elem* __restrict__ table, elem* __restrict__ out) {
    const u64 first = flat_workgroup() * (THREADS * AT_ONCE) + threadIdx.x;
    u64 from[AT_ONCE], to[AT_ONCE];
    stored moved[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
        const u64 at = first + i * THREADS;
        if (at < COUNT) {
            const unsigned item = item_at((unsigned)at / PIECES), piece = (unsigned)at % PIECES;
            from[i] = (u64)(index[item] + item % TABLES * TABLE_ROWS) * PIECES + piece;
            to[i] = (u64)item * PIECES + piece;
        }
    }
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
        if (first + i * THREADS < COUNT) moved[i] = load_stored(table, from[i]);
    }
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
        if (first + i * THREADS < COUNT) store_once(out, to[i], moved[i]);
    }
}

#pragma once
// Main loop of convolutions by warpgroups. Tiles have BLOCK_M and BLOCK_N rows of BLOCK_K terms, in rows of 128 bytes with the
// instruction's swizzle. Two products are in flight, and copies run two steps ahead of the latest.

#include "conv2d/common.cuh"
#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

// Sixty-four rows per warpgroup.
constexpr unsigned BLOCK_M = THREADS / 128 * 64;
constexpr unsigned step_elems = (BLOCK_M + BLOCK_N) * BLOCK_K;
static_assert(LAST && BLOCK_K == 64 && STAGES > 3, "rows of 128 bytes, and room for two products and two copies");

// Tiles begin at multiples of 1024 bytes. Shared memory has room for the alignment.
__device__ __forceinline__ elem* tiles_in(uint4* shared) {
    return reinterpret_cast<elem*>(shared) + (1024 - shared_address(shared) % 1024) % 1024 / 2;
}

// Index of a piece of eight in its row of 64 after the swizzle: the order of pieces differs among eight rows.
__device__ __forceinline__ unsigned swizzled(unsigned row, unsigned piece) { return (piece ^ row % 8) * 8; }

// Index of piece `piece` of a term in a tile with a row per term: 64 columns of all terms are contiguous.
__device__ __forceinline__ unsigned place_of(unsigned term, unsigned piece) {
    return piece / 8 * (64 * BLOCK_K) + term * 64 + swizzled(term, piece % 8);
}

// First channel of a term, if the term exists.
struct Row {
    unsigned at;
    bool there;
};

// Begins to copy BLOCK_N channels from `channel` on of BLOCK_K terms. `row_of` finds the row of a term. Copies have eight
// elements, where channels are a multiple of eight and columns fill rows of 128 bytes.
template <class RowOf>
__device__ __forceinline__ void stage_columns(elem* to, const elem* from, unsigned channel, RowOf row_of) {
    constexpr unsigned wide = BLOCK_N / 8;
#pragma unroll
    for (unsigned i = 0; i < BLOCK_K * wide; i += THREADS) {
        if (BLOCK_K * wide % THREADS != 0 && i + threadIdx.x >= BLOCK_K * wide) break;
        const unsigned term = (i + threadIdx.x) / wide, piece = (i + threadIdx.x) % wide;
        const Row row = row_of(term);
        const bool inside = row.there && channel + piece * 8 < TO_C;
        copy_async(to + place_of(term, piece), from + (inside ? row.at + channel + piece * 8 : 0), inside);
    }
}

// Adds the products of the given number of steps. Tiles have terms along their rows, or a row per term.
template <bool LEFT_ACROSS, bool RIGHT_ACROSS, class Copies>
__device__ __forceinline__ void multiply(float (&sums)[BLOCK_N / 2], elem* tiles, Copies& copies, unsigned steps) {
    // Once, before the loop: computations between products would let the compiler serialise them.
    const unsigned warpgroup = threadIdx.x / 128;
    constexpr u64 next_left = LEFT_ACROSS ? WGMMA_NEXT_ACROSS_K : WGMMA_NEXT_ALONG_K;
    constexpr u64 next_right = RIGHT_ACROSS ? WGMMA_NEXT_ACROSS_K : WGMMA_NEXT_ALONG_K;
#pragma unroll
    for (unsigned step = 0; step < STAGES - 2; step++) copies.stage(tiles, step);
    for (unsigned step = 0; step < steps; step++) {
        wait_for_copies<STAGES - 3>();
        tma_fence();
        // Every warpgroup has waited for the product of two steps before, whose place the next copies take.
        __syncthreads();
        const elem* const rows = tiles + step % STAGES * step_elems + warpgroup * (64 * BLOCK_K);
        const elem* const columns = tiles + step % STAGES * step_elems + BLOCK_M * BLOCK_K;
        const u64 left = LEFT_ACROSS ? wgmma_across_k(rows, BLOCK_K) : wgmma_along_k(rows);
        const u64 right = RIGHT_ACROSS ? wgmma_across_k(columns, BLOCK_K) : wgmma_along_k(columns);
        wgmma_fence();
#pragma unroll
        for (unsigned k = 0; k < BLOCK_K / 16; k++) {
            wgmma<LEFT_ACROSS, RIGHT_ACROSS>(sums, left + k * next_left, right + k * next_right, true);
        }
        wgmma_commit();
        copies.stage(tiles, step + STAGES - 2);
        wgmma_wait<1>();
    }
    wgmma_wait<0>(sums);
}

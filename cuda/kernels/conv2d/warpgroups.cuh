#pragma once
// What convolutions by warpgroups have in common: a block's tiles of BLOCK_M and of BLOCK_N, BLOCK_K terms at a time, in rows of 128 bytes that
// are swizzled as the instruction takes them, and the loop over steps. Two products are under way at a time, and copies run two steps
// ahead of the latest.

#include "conv2d/common.cuh"
#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

// Sixty-four rows for each warpgroup.
constexpr unsigned BLOCK_M = THREADS / 128 * 64;
constexpr unsigned step_elems = (BLOCK_M + BLOCK_N) * BLOCK_K;
static_assert(LAST && BLOCK_K == 64 && STAGES > 3, "rows of 128 bytes, and room for two products and two copies");

// Tiles begin on multiples of 1024 bytes, for which there is room.
__device__ __forceinline__ elem* tiles_in(uint4* shared) {
    return reinterpret_cast<elem*>(shared) + (1024 - shared_address(shared) % 1024) % 1024 / 2;
}

// Where a piece of eight lies in its row of 64: of eight rows each has its pieces in another order, which is the swizzle.
__device__ __forceinline__ unsigned swizzled(unsigned row, unsigned piece) { return (piece ^ row % 8) * 8; }

// Where piece `piece` of a term's row lies in a tile that has a row for each term: 64 columns of all terms lie together.
__device__ __forceinline__ unsigned place_of(unsigned term, unsigned piece) {
    return piece / 8 * (64 * BLOCK_K) + term * 64 + swizzled(term, piece % 8);
}

// Where the channels of a term begin, if it has any.
struct Row {
    unsigned at;
    bool there;
};

// Begin to copy BLOCK_N channels from `channel` on of BLOCK_K terms: `row_of` finds a term's. Eight neighbours are copied at once, where
// channels are whole eights and columns whole rows of 128 bytes.
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

// Adds up the products of that many steps. Tiles lie along their rows, or across them with a row for each term.
template <bool LEFT_ACROSS, bool RIGHT_ACROSS, class Copies>
__device__ __forceinline__ void multiply(float (&sums)[BLOCK_N / 2], elem* tiles, Copies& copies, unsigned steps) {
    // Once, before the loop: what is computed between products lets the compiler put each behind the other.
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
        for (unsigned turn = 0; turn < BLOCK_K / 16; turn++) {
            wgmma<LEFT_ACROSS, RIGHT_ACROSS>(sums, left + turn * next_left, right + turn * next_right, true);
        }
        wgmma_commit();
        copies.stage(tiles, step + STAGES - 2);
        wgmma_wait<1>();
    }
    wgmma_wait<0>(sums);
}

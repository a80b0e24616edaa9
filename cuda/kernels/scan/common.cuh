// Tiles of THREADS * ROWS pieces, scanned by a block, for `three_pass` and `decoupled`.
//
// A warp has ROWS consecutive rows of 32 pieces, so that neighbouring threads access neighbouring pieces. Rows are scanned by
// shuffles, and only the sums of warps pass through shared memory.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned tile_rows = ROWS;
constexpr unsigned warps = THREADS / 32;

// First piece of a thread in a tile; the next ones are 32 apart.
__device__ __forceinline__ u64 first_piece(u64 tile) {
    return (tile * THREADS + threadIdx.x / 32 * 32) * tile_rows + threadIdx.x % 32;
}

__device__ __forceinline__ void load_tile(piece (&own)[tile_rows], const elem* __restrict__ x, u64 tile) {
    const u64 first = first_piece(tile);
    stored from[tile_rows];
#pragma unroll
    for (unsigned row = 0; row < tile_rows; row++) {
        if (first + row * 32 < COUNT) from[row] = load_stored(x, first + row * 32);
    }
#pragma unroll
    for (unsigned row = 0; row < tile_rows; row++) {
        own[row] = first + row * 32 < COUNT ? widened(from[row]) : piece_of(0.0f);
    }
}

// Sum of all elements before each piece in its tile; returns the sum of the tile. `piece_at` gives the piece of a row. All threads
// of the block must call.
template <typename Piece>
__device__ __forceinline__ float starts_of(Piece piece_at, float (&start)[tile_rows]) {
    __shared__ float of_warps[warps];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float run = 0.0f;
#pragma unroll
    for (unsigned row = 0; row < tile_rows; row++) {
        const piece own = piece_at(row);
        float upto = own.at[0];
#pragma unroll
        for (unsigned i = 1; i < WIDTH; i++) upto += own.at[i];
#pragma unroll
        for (unsigned step = 1; step < 32; step *= 2) {
            const float more = __shfl_up_sync(0xFFFFFFFFu, upto, step);
            if (lane >= step) upto += more;
        }
        const float before = __shfl_up_sync(0xFFFFFFFFu, upto, 1);
        start[row] = lane == 0 ? run : run + before;
        run += __shfl_sync(0xFFFFFFFFu, upto, 31);
    }
    // Ends the reads of the previous tile's sums.
    __syncthreads();
    if (lane == 0) of_warps[warp] = run;
    __syncthreads();
    float earlier = 0.0f, total = 0.0f;
#pragma unroll
    for (unsigned other = 0; other < warps; other++) {
        if (other == warp) earlier = total;
        total += of_warps[other];
    }
#pragma unroll
    for (unsigned row = 0; row < tile_rows; row++) start[row] += earlier;
    return total;
}

__device__ __forceinline__ float tile_starts(const piece (&own)[tile_rows], float (&start)[tile_rows]) {
    return starts_of([&](unsigned row) { return own[row]; }, start);
}

// Stores running sums from the start value of each piece.
template <typename Piece>
__device__ __forceinline__ void store_sums(elem* __restrict__ out, Piece piece_at, const float (&start)[tile_rows],
                                           float begin, u64 tile) {
    const u64 first = first_piece(tile);
#pragma unroll
    for (unsigned row = 0; row < tile_rows; row++) {
        float run = begin + start[row];
        const piece own = piece_at(row);
        piece sums;
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) {
            const float earlier = run;
            run += own.at[i];
            sums.at[i] = EXCLUSIVE ? earlier : run;
        }
        if (first + row * 32 < COUNT) store_piece(out, first + row * 32, sums);
    }
}

__device__ __forceinline__ void store_tile(elem* __restrict__ out, const piece (&own)[tile_rows],
                                           const float (&start)[tile_rows], float begin, u64 tile) {
    store_sums(out, [&](unsigned row) { return own[row]; }, start, begin, tile);
}

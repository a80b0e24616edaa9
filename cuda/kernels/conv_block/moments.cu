// Convolution by tiles, as conv2d/implicit does it, which also leaves what batch normalisation asks for: of each channel the mean
// over the tile's positions, and the sum of squares around that mean. The definition is in core/workloads/src/ops/conv_block.
//
// A thread keeps sums of distances from the first value that it has of a channel, and of their squares. As that value is one of
// the few, little is lost when squares around their mean are told from these.

#include "conv2d/pixels.cuh"
#include "conv_block/shifted.cuh"

constexpr unsigned CHANNELS = GROUPS * TO_C, threads_m = M_VEC4 / REG_TILES_M, threads_n = N_VEC4 / REG_TILES_N;

struct Counted : Pixels {
    // Of the four channels in each tile of this thread, over its positions; and columns of squares that were stored.
    mutable Shifted moments[REG_TILES_M][4];
    mutable unsigned columns_stored;

    // Columns of a thread rise: where its first is past the end, so are all.
    __device__ __forceinline__ void store_column(unsigned tile_row, unsigned slot, unsigned i, const float4& sums) const {
        const unsigned at = columns_stored / (4 * REG_TILES_N);
        const bool begin = columns_stored % (4 * REG_TILES_N) == 0;
        columns_stored++;
        Pixels::store_column(tile_row, slot, i, sums);
        if (column_of(slot, i) >= COLUMNS) return;
        const float sum[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            const unsigned row = first_row + tile_row + e;
            // As it was stored.
            if (row < TO_C) moments[at][e].add(load(to_elem(epilogue(group * TO_C + row, sum[e]))), begin);
        }
    }
};

// What `term` tells of each channel of a thread, at a place down and across in the tile, added up over the threads that have the
// channel: for the thread of that number.
template <typename Term>
__device__ __forceinline__ float over_threads(const Counted& pixels, uint2 place,
                                              float (&of_threads)[BLOCK_M][threads_n], const Term& term) {
#pragma unroll
    for (unsigned r = 0; r < REG_TILES_M; r++) {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            const unsigned row = 4 * (place.x + r * threads_m) + e;
            of_threads[row][place.y] = term(pixels.moments[r][e], row);
        }
    }
    __syncthreads();
    float sum = 0.0f;
    if (threadIdx.x < BLOCK_M) {
        for (unsigned i = 0; i < threads_n; i++) sum += of_threads[threadIdx.x][i];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(256, 2)
    conv_block_moments(const elem* __restrict__ source, const elem* __restrict__ w, elem* __restrict__ result,
                       const elem* __restrict__ bias, float* __restrict__ parts) {
    __shared__ float of_threads[BLOCK_M][threads_n];
    __shared__ float means[BLOCK_M];
    const uint3 tile = tile_of_block();
    if (tile.x >= GROUPS) return;
    Counted pixels{{source, w, result, Epilogue{bias}, tile.x, tile.y, tile.z}};
    pixels.begin();
    tile_product<LAST>(pixels, 0, TERMS);

    const uint2 place = LAST ? make_uint2(threadIdx.x % threads_m, threadIdx.x / threads_m)
                             : make_uint2(threadIdx.x / threads_n, threadIdx.x % threads_n);
    // Positions of this thread, and of the tile.
    float own = 0.0f;
#pragma unroll
    for (unsigned s = 0; s < REG_TILES_N; s++) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (pixels.column_of(place.y + s * threads_n, i) < COLUMNS) own += 1.0f;
        }
    }
    const float all = (float)min(BLOCK_N, COLUMNS - tile.z);
    const float mean = over_threads(pixels, place, of_threads, [&](const Shifted& x, unsigned) { return x.sum(own); }) / all;
    if (threadIdx.x < BLOCK_M) means[threadIdx.x] = mean;
    __syncthreads();
    const float around = over_threads(pixels, place, of_threads, [&](const Shifted& x, unsigned row) {
        return x.around(means[row], own);
    });
    const unsigned row = tile.y + threadIdx.x;
    if (threadIdx.x >= BLOCK_M || row >= TO_C) return;
    float* const part = parts + (u64)(tile.z / BLOCK_N) * 2 * CHANNELS + tile.x * TO_C + row;
    part[0] = mean;
    part[CHANNELS] = around;
}

// Tiled convolution as in conv2d/implicit, with partial statistics for batch normalisation: per channel, the mean over the tile's
// positions, and the sum of squared distances from it. The definition is in core/workloads/src/ops/conv_block.
//
// A thread sums distances, and squared distances, from its first value of a channel. That value is one of the few summed, so
// little precision is lost by deriving the variance from them.

#include "conv2d/pixels.cuh"
#include "conv_block/shifted.cuh"

constexpr unsigned CHANNELS = GROUPS * TO_C, threads_m = M_VEC4 / REG_TILES_M, threads_n = N_VEC4 / REG_TILES_N;

struct Counted : Pixels {
    // Moments of the four channels in each register tile, over its positions; and number of columns stored.
    mutable Shifted moments[REG_TILES_M][4];
    mutable unsigned columns_stored;

    // Columns of a thread increase: if its first is past the end, all are.
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
            // As stored.
            if (row < TO_C) moments[at][e].add(load(to_elem(epilogue(group * TO_C + row, sum[e]))), begin);
        }
    }
};

// Sums `term` of each channel of a thread, at its place in the tile, over the threads with that channel. Thread i receives
// channel i.
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

// Convolution on tensor cores as in conv2d/mma, with partial statistics for batch normalisation: see conv_block/moments.
//
// In a fragment of results, a lane holds two neighbours in each of two rows. With channels last these are positions of two
// channels: lanes with equal remainder by four have the same channels. Otherwise positions lie along rows, and four neighbouring
// lanes have the same channels. In both cases two of the four warps have the same channels.

#include "conv2d/positions.cuh"
#include "conv_block/shifted.cuh"

constexpr unsigned CHANNELS = GROUPS * TO_C, POSITIONS = IMAGES * TO;
// Channels of a thread.
constexpr unsigned OWN = LAST ? 16 : 8;

// Sums `term` of each channel of a thread, at its place in the tile, over all threads with that channel. Thread i receives
// channel i.
template <typename Term>
__device__ __forceinline__ float over_threads(const Shifted (&moments)[OWN], float (&of_warps)[2][BLOCK_MN], const Term& term) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = LAST ? warp / 2 : warp % 2;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned channel = LAST ? warp % 2 * 64 + i / 2 * 8 + lane % 4 * 2 + i % 2
                                      : warp / 2 * 64 + i / 2 * 16 + lane / 4 + i % 2 * 8;
        float sum = term(moments[i], channel);
#pragma unroll
        for (unsigned step = LAST ? 16 : 2; step >= (LAST ? 4 : 1); step /= 2) {
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
        }
        if (LAST ? lane / 4 == 0 : lane % 4 == 0) of_warps[half][channel] = sum;
    }
    __syncthreads();
    return of_warps[0][threadIdx.x] + of_warps[1][threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv_block_moments_mma(const elem* __restrict__ source, const elem* __restrict__ w, elem* __restrict__ result,
                           const elem* __restrict__ bias, float* __restrict__ parts) {
    static_assert(THREADS == BLOCK_MN, "a channel of the tile for each thread");
    __shared__ float of_warps[2][BLOCK_MN];
    __shared__ float means[BLOCK_MN];
    const TileOfBlock tile = tile_of_block();
    if (tile.group >= GROUPS) return;
    const Epilogue epilogue{bias};
    const unsigned first = LAST ? tile.column : tile.row, first_position = LAST ? tile.row : tile.column;

    // Positions of a thread increase: if its first is past the end, all are. Each row has eight pairs.
    Shifted moments[OWN] = {};
    unsigned pairs = 0;
    float own = 0.0f;
    convolution_mma(source, w, tile, [&](unsigned row, unsigned column, float x, float y) {
        store2(result, epilogue, tile, row, column, x, y);
        const unsigned at = pairs % 8, down = pairs / 8;
        pairs++;
        const float two[2] = {x, y};
#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
            const unsigned channel = first + (LAST ? column + i : row), position = first_position + (LAST ? row : column + i);
            const unsigned counted = LAST ? at * 2 + i : down;
            if (position >= POSITIONS) continue;
            if (counted == 0) own += 1.0f;
            // As stored.
            if (channel < TO_C) {
                const float value = load(to_elem(epilogue(tile.group * TO_C + channel, two[i])));
                moments[counted].add(value, LAST ? down == 0 : at == 0 && i == 0);
            }
        }
    });

    const float all = (float)min(BLOCK_MN, POSITIONS - first_position);
    const float mean = over_threads(moments, of_warps, [&](const Shifted& x, unsigned) { return x.sum(own); }) / all;
    means[threadIdx.x] = mean;
    __syncthreads();
    const float around = over_threads(moments, of_warps, [&](const Shifted& x, unsigned at) {
        return x.around(means[at], own);
    });
    const unsigned channel = first + threadIdx.x;
    if (channel >= TO_C) return;
    float* const part = parts + (u64)(first_position / BLOCK_MN) * 2 * CHANNELS + tile.group * TO_C + channel;
    part[0] = mean;
    part[CHANNELS] = around;
}

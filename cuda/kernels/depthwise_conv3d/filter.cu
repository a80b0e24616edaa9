// Gradient of the filters of a depthwise convolution, in parts: image and gradient are read once for all taps, in pieces.
//
// A thread walks along strips as in `marching`, with the gradients of IN_FLIGHT results and a sum per tap. A block has BESIDE
// channels, or pieces of channels. PARTS blocks share the strips of the same channels, and each stores a part. With BIASED the
// gradients themselves are summed too.

#include "depthwise_conv3d/walk.cuh"

// Gradients of a row of the thread's results.
__device__ __forceinline__ void read_gradients(const elem* __restrict__ dout, const walk& mine, unsigned z, unsigned y,
                                               value gradients[ALONG]) {
    const u64 start = row_start(mine, z, y, OD, OH, OW);
    if constexpr (CHANNELS_LAST) {
#pragma unroll
        for (unsigned along = 0; along < ALONG; along++) {
            const unsigned at = mine.unit * ALONG + along;
            piece wide = piece_of(0.0f);
            if (at < OW) wide = load_piece(dout, start + (u64)at * CHANNELS);
#pragma unroll
            for (unsigned lane = 0; lane < LANES; lane++) gradients[along].at[lane] = wide.at[lane];
        }
    } else {
        const piece wide = load_piece(dout, start + mine.unit);
#pragma unroll
        for (unsigned along = 0; along < ALONG; along++) gradients[along].at[0] = wide.at[along % WIDTH];
    }
}

// Sum over the threads of the same channel, for the first of them. All threads of the block must call.
__device__ __forceinline__ value over_walkers(const value& own) {
    __shared__ value of_threads[THREADS];
    of_threads[threadIdx.x] = own;
    __syncthreads();
#pragma unroll
    for (unsigned half = THREADS / 2; half >= BESIDE; half /= 2) {
        if (threadIdx.x < half) {
#pragma unroll
            for (unsigned lane = 0; lane < LANES; lane++) {
                of_threads[threadIdx.x].at[lane] += of_threads[threadIdx.x + half].at[lane];
            }
        }
        __syncthreads();
    }
    const value sum = of_threads[threadIdx.x];
    __syncthreads();
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_filter(const elem* __restrict__ x, const elem* __restrict__ dout, float* __restrict__ parts) {
    const u64 flat = flat_workgroup();
    const u64 part = flat / GROUPS;
    if (part >= PARTS) return;
    // Where channels are not last, a group is one channel.
    const unsigned c = (unsigned)(flat % GROUPS) * BESIDE + threadIdx.x % BESIDE;
    const bool there = !CHANNELS_LAST || c < CHANNELS;
    constexpr unsigned walkers = THREADS / BESIDE;

    value sums[TAPS] = {};
    value of_bias = {};
    for (u64 number = part * walkers + threadIdx.x / BESIDE; there && number < WALKS; number += (u64)PARTS * walkers) {
        const walk mine = walk_of(number, c);
        const unsigned last = mine.z + STRIP < OD ? mine.z + STRIP : OD;
        value gradients[IN_FLIGHT][DOWN][ALONG] = {};
        const auto begin = [&](unsigned step) {
#pragma unroll
            for (unsigned down = 0; down < DOWN; down++) {
#pragma unroll
                for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                    for (unsigned ago = IN_FLIGHT - 1; ago > 0; ago--) {
                        gradients[ago][down][along] = gradients[ago - 1][down][along];
                    }
                    gradients[0][down][along] = value{};
                }
                if (step < last && mine.y + down < OH) read_gradients(dout, mine, step, mine.y + down, gradients[0][down]);
                if constexpr (BIASED) {
#pragma unroll
                    for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                        for (unsigned lane = 0; lane < LANES; lane++) {
                            of_bias.at[lane] += gradients[0][down][along].at[lane];
                        }
                    }
                }
            }
        };
        const auto take = [&](unsigned slice, unsigned row, const value* window) {
            each_tap(slice, row, [&](unsigned ago, unsigned down, unsigned tap, unsigned column) {
#pragma unroll
                for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                    for (unsigned lane = 0; lane < LANES; lane++) {
                        const float gradient = gradients[ago][down][along].at[lane];
                        sums[tap].at[lane] = fmaf(gradient, window[along * SW + column].at[lane], sums[tap].at[lane]);
                    }
                }
            });
        };
        march(x, mine, begin, take, [](unsigned) {});
    }

    float* const mine = parts + part * PART_COLUMNS;
    const bool writes = threadIdx.x < BESIDE && there;
#pragma unroll
    for (unsigned tap = 0; tap < TAPS; tap++) {
        const value sum = over_walkers(sums[tap]);
#pragma unroll
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned at = CHANNELS_LAST ? tap * C + c * LANES + lane : c * TAPS + tap;
            if (writes) mine[at] = sum.at[lane];
        }
    }
    if constexpr (BIASED) {
        const value sum = over_walkers(of_bias);
#pragma unroll
        for (unsigned lane = 0; lane < LANES; lane++) {
            if (writes) mine[C * TAPS + c * LANES + lane] = sum.at[lane];
        }
    }
}

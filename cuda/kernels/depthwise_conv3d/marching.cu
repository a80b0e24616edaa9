// Depthwise convolution by threads that march along the slowest axis: each element of the image is read once, in pieces of up to
// 16 bytes, without barriers. The definitions are in core/workloads/src/ops/depthwise_conv3d and depthwise_conv2d.
//
// A thread keeps IN_FLIGHT partial results. Each slice of the image is added to the results that it contributes to. After each
// step the oldest result is complete, and is stored. With FLIP taps are reversed, for the gradient of the image.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#include "depthwise_conv3d/taps.cuh"
#include "depthwise_conv3d/walk.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_marching(const elem* __restrict__ x, const elem* __restrict__ w, elem* __restrict__ out
#if BIASED
    , const elem* __restrict__ bias
#endif
) {
    // Neighbouring threads have neighbouring memory: channels first where these are last, and columns otherwise.
    const u64 item = flat_workgroup() * THREADS + threadIdx.x;
    walk mine = walk_of(item / CHANNELS, (unsigned)(item % CHANNELS));
    if constexpr (!CHANNELS_LAST) {
        mine.c = mine.n % C;
        mine.n /= C;
    }
    if (mine.n >= N) return;

    value taps[TAPS];
#pragma unroll
    for (unsigned tap = 0; tap < TAPS; tap++) taps[tap] = tap_value(w, mine.c, tap);
    value offset = {};
#if BIASED
    offset = bias_value(bias, mine.c);
#endif
    value sums[IN_FLIGHT][DOWN][ALONG] = {};

    const auto begin = [](unsigned) {};
    const auto take = [&](unsigned slice, unsigned row, const value* window) {
        each_tap(slice, row, [&](unsigned ago, unsigned down, unsigned number, unsigned column) {
            const unsigned tap = FLIP ? TAPS - 1 - number : number;
#pragma unroll
            for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                for (unsigned lane = 0; lane < LANES; lane++) {
                    float& sum = sums[ago][down][along].at[lane];
                    sum = fmaf(window[along * SW + column].at[lane], taps[tap].at[lane], sum);
                }
            }
        });
    };
    const auto end = [&](unsigned step) {
        const unsigned z = step - (IN_FLIGHT - 1);
        if (step >= mine.z + IN_FLIGHT - 1) {
#pragma unroll
            for (unsigned down = 0; down < DOWN; down++) {
                if (mine.y + down >= OH) continue;
                float finished[ALONG][LANES];
#pragma unroll
                for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                    for (unsigned lane = 0; lane < LANES; lane++) {
                        float sum = sums[IN_FLIGHT - 1][down][along].at[lane];
                        if constexpr (BIASED) sum += offset.at[lane];
                        finished[along][lane] = RELU ? relu(sum) : sum;
                    }
                }
                const u64 start = row_start(mine, z, mine.y + down, OD, OH, OW);
                // A piece is WIDTH channels of a column, or the WIDTH columns of the thread.
                constexpr unsigned pieces = CHANNELS_LAST ? ALONG : 1;
#pragma unroll
                for (unsigned i = 0; i < pieces; i++) {
                    const unsigned at = mine.unit * pieces + i;
                    if (CHANNELS_LAST && at >= OW) continue;
                    piece result;
#pragma unroll
                    for (unsigned lane = 0; lane < WIDTH; lane++) {
                        result.at[lane] = CHANNELS_LAST ? finished[i][lane % LANES] : finished[lane % ALONG][0];
                    }
                    store_piece(out, start + (u64)at * (CHANNELS_LAST ? CHANNELS : 1), result);
                }
            }
        }
#pragma unroll
        for (unsigned down = 0; down < DOWN; down++) {
#pragma unroll
            for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                for (unsigned ago = IN_FLIGHT - 1; ago > 0; ago--) sums[ago][down][along] = sums[ago - 1][down][along];
                sums[0][down][along] = value{};
            }
        }
    };
    march(x, mine, begin, take, end);
}

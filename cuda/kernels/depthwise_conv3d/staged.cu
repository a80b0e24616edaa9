// `marching` in three dimensions with channels last, and with slices in shared memory. A block stages SLICES slices of the image,
// and its threads read their windows there. The definition is in core/workloads/src/ops/depthwise_conv3d.
//
// A block has BESIDE pieces of channels times BLOCK_UNITS groups of ALONG columns times BLOCK_TILES groups of DOWN rows. A step
// waits for a slice, begins to copy the slice that replaces the previous one, and adds its slice to the results as marching.cu
// does.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#include "depthwise_conv3d/taps.cuh"
#include "depthwise_conv3d/walk.cuh"
#include "lib/async_copy.cuh"

#if __CUDA_ARCH__ >= 800

// Columns and rows of the block's results, and of the image under them.
constexpr unsigned BLOCK_COLUMNS = BLOCK_UNITS * ALONG, BLOCK_ROWS = BLOCK_TILES * DOWN;
constexpr unsigned COLUMNS_UNDER = BLOCK_COLUMNS + KW - 1, ROWS_UNDER = BLOCK_ROWS + KH - 1;
// A slice in shared memory: elements of a pixel, and parts of 16 bytes.
constexpr unsigned PIXEL = BESIDE * WIDTH, PER_PART = 16 / sizeof(elem), PARTS = ROWS_UNDER * COLUMNS_UNDER * PIXEL / PER_PART;
// Maximum number of parts per thread.
constexpr unsigned OWN = (PARTS + THREADS - 1) / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    depthwise_staged(const elem* __restrict__ x, const elem* __restrict__ w, elem* __restrict__ out
#if BIASED
    , const elem* __restrict__ bias
#endif
) {
    static_assert(CHANNELS_LAST && THREADS == BESIDE * BLOCK_UNITS * BLOCK_TILES && PIXEL % PER_PART == 0, "whole parts");
    static_assert(SD * SH * SW * LD * LH * LW == 1 && OWN <= 32, "windows of neighbours, and a bit for each part");
    extern __shared__ __align__(16) unsigned char room[];
    elem* const slots = reinterpret_cast<elem*>(room);
    u64 number = flat_workgroup();
    const unsigned group = (unsigned)(number % (CHANNELS / BESIDE));
    number /= CHANNELS / BESIDE;
    constexpr unsigned across = (OW + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS, below = (OH + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const unsigned left = (unsigned)(number % across) * BLOCK_COLUMNS;
    number /= across;
    const unsigned top = (unsigned)(number % below) * BLOCK_ROWS;
    number /= below;
    const unsigned first = (unsigned)(number % STRIPS) * STRIP, n = (unsigned)(number / STRIPS);
    if (n >= N) return;
    const unsigned beside = threadIdx.x % BESIDE, c = group * BESIDE + beside;
    const unsigned unit = threadIdx.x / BESIDE % BLOCK_UNITS, tile = threadIdx.x / (BESIDE * BLOCK_UNITS);

    // The thread's parts of each slice: their places, and whether they exist. Unsigned: coordinates before the image wrap around
    // and exceed its extent.
    unsigned places[OWN], inside = 0;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned at = (threadIdx.x + i * THREADS) * PER_PART, pixel = at / PIXEL;
        const unsigned y = top + pixel / COLUMNS_UNDER - PH, column = left + pixel % COLUMNS_UNDER - PW;
        const bool there = pixel < ROWS_UNDER * COLUMNS_UNDER && y < IH && column < IW;
        places[i] = there ? (y * IW + column) * C + group * PIXEL + at % PIXEL : 0;
        inside |= (there ? 1u : 0u) << i;
    }
    const unsigned last = (first + STRIP < OD ? first + STRIP : OD) + KD - 1;
    const auto bring = [&](unsigned slice, unsigned slot) {
        if (slice < last) {
            const unsigned z = slice - PD;
            const bool some = z < ID;
            const elem* from = x + ((u64)n * ID + (some ? z : 0)) * ((u64)IH * IW * C);
            elem* to = slots + slot * (PARTS * PER_PART) + threadIdx.x * PER_PART;
#pragma unroll
            for (unsigned i = 0; i < OWN; i++) {
                if (threadIdx.x + i * THREADS >= PARTS) break;
                copy_async(to + i * (THREADS * PER_PART), from + places[i], some && (inside >> i & 1));
            }
        }
        close_copies();
    };
#pragma unroll
    for (unsigned i = 0; i < SLICES - 1; i++) bring(first + i, i);

    value taps[TAPS];
#pragma unroll
    for (unsigned tap = 0; tap < TAPS; tap++) taps[tap] = tap_value(w, c, FLIP ? TAPS - 1 - tap : tap);
    value offset = {};
#if BIASED
    offset = bias_value(bias, c);
#endif
    value sums[KD][DOWN][ALONG] = {};
    const unsigned my_row = top + tile * DOWN, my_column = left + unit * ALONG;
    const elem* const window_at = slots + (tile * DOWN * COLUMNS_UNDER + unit * ALONG) * PIXEL + beside * WIDTH;
    elem* to = out + ((((u64)n * OD + first) * OH + my_row) * OW + my_column) * C + c * WIDTH;
    unsigned slot = 0;
    for (unsigned slice = first; slice < last; slice++) {
        wait_for_copies<SLICES - 2>();
        // All parts have arrived, and no thread reads the previous slice any more.
        __syncthreads();
        bring(slice + SLICES - 1, slot == 0 ? SLICES - 1 : slot - 1);
        const elem* here = window_at + slot * (PARTS * PER_PART);
#pragma unroll
        for (unsigned row = 0; row < DOWN + KH - 1; row++) {
            value window[ALONG + KW - 1];
#pragma unroll
            for (unsigned i = 0; i < ALONG + KW - 1; i++) {
                const raw_piece raw = whole_piece(here + (row * COLUMNS_UNDER + i) * PIXEL);
#pragma unroll
                for (unsigned lane = 0; lane < LANES; lane++) window[i].at[lane] = opened(raw, lane);
            }
            each_tap(0, row, [&](unsigned ago, unsigned down, unsigned tap, unsigned column) {
#pragma unroll
                for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                    for (unsigned lane = 0; lane < LANES; lane++) {
                        float& sum = sums[ago][down][along].at[lane];
                        sum = fmaf(window[along + column].at[lane], taps[tap].at[lane], sum);
                    }
                }
            });
        }
        if (slice >= first + KD - 1) {
#pragma unroll
            for (unsigned down = 0; down < DOWN; down++) {
#pragma unroll
                for (unsigned along = 0; along < ALONG; along++) {
                    piece result;
#pragma unroll
                    for (unsigned lane = 0; lane < LANES; lane++) {
                        const float sum = sums[KD - 1][down][along].at[lane] + offset.at[lane];
                        result.at[lane] = RELU ? relu(sum) : sum;
                    }
                    if (my_row + down < OH && my_column + along < OW) store_piece(to + ((u64)down * OW + along) * C, 0, result);
                }
            }
            to += (u64)OH * OW * C;
        }
#pragma unroll
        for (unsigned down = 0; down < DOWN; down++) {
#pragma unroll
            for (unsigned along = 0; along < ALONG; along++) {
#pragma unroll
                for (unsigned ago = KD - 1; ago > 0; ago--) sums[ago][down][along] = sums[ago - 1][down][along];
                sums[0][down][along] = value{};
            }
        }
        slot = slot + 1 == SLICES ? 0 : slot + 1;
    }
}

#endif

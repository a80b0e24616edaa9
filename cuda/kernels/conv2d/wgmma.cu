// Convolution by warpgroups, channels last: against `mma`, four warps multiply together, straight from shared memory, which tensor
// cores of compute capability 9.0 need to reach their speed. A row is a position, a column an output channel, a term a channel of
// the source at a tap. The definition is in core/src/suite/workloads/conv2d.
//
// Backward, as the gradient of the input, kernels are the other way round: of a term all channels of the result are neighbours as they
// lie, and the tile of kernels is one of terms, not of channels.
//
// A block computes ROWS positions, 64 for each warpgroup, of COLUMNS channels, DEPTH terms at a time. All threads copy pieces of
// eight terms, pixels where they are gathered from, into tiles of rows of 128 bytes, swizzled as the instruction takes them. Two
// products are under way at a time, and copies run two steps ahead of the latest.

#include "conv2d/common.cuh"
#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

constexpr unsigned TERMS = FROM_C * TAPS, POSITIONS = IMAGES * TO, ROWS = THREADS / 128 * 64;
// Rows that all threads copy at once, eight threads a row.
constexpr unsigned PASS = THREADS / 8;
constexpr unsigned step_elems = (ROWS + COLUMNS) * DEPTH;
static_assert(LAST && FROM_C % 8 == 0, "eight terms are neighbouring channels");
static_assert(!BACK || TO_C % 8 == 0 && COLUMNS % 64 == 0, "and so are eight columns of a term, in rows of 128 bytes");
static_assert(DEPTH == 64 && ROWS % PASS == 0 && PASS % 8 == 0 && STEPS > 3, "rows of 128 bytes");

// What a thread copies is of the same rows all along, in the same place of each.
struct Copies {
    const elem* __restrict__ source;
    const elem* __restrict__ w;
    unsigned group, first_channel;
    Known known[ROWS / PASS];

    __device__ __forceinline__ Copies(const elem* source, const elem* w, unsigned group, unsigned first, unsigned channel)
        : source(source), w(w + group * (TO_C * TERMS) + channel * (BACK ? 1 : TERMS)), group(group), first_channel(channel) {
#pragma unroll
        for (unsigned i = 0; i < ROWS / PASS; i++) known[i] = known_of(first + threadIdx.x / 8 + i * PASS);
    }

    // Begin to copy what is of the terms from `step` times DEPTH on, zeros past the end.
    __device__ __forceinline__ void stage(elem* tiles, unsigned step) const {
        const unsigned row = threadIdx.x / 8, piece = threadIdx.x % 8, term = step * DEPTH + piece * 8;
        // The swizzle: of eight rows each has its pieces in another order.
        elem* const to = tiles + step % STEPS * step_elems + row * DEPTH + (piece ^ row % 8) * 8;
        const uint3 tap = tap_at(term / FROM_C);
#pragma unroll
        for (unsigned i = 0; i < ROWS / PASS; i++) {
            const Under found = under(known[i], tap);
            const bool inside = term < TERMS && found.there;
            const unsigned at = source_at(group, term % FROM_C, known[i].image, found.position);
            copy_async(to + i * PASS * DEPTH, source + (inside ? at : 0), inside);
        }
        if constexpr (BACK) {
            stage_terms(tiles + (step % STEPS) * step_elems + ROWS * DEPTH, step);
        } else {
#pragma unroll
            for (unsigned i = 0; i < COLUMNS; i += PASS) {
                if (COLUMNS % PASS != 0 && row + i >= COLUMNS) break;
                const bool inside = term < TERMS && first_channel + row + i < TO_C;
                copy_async(to + (ROWS + i) * DEPTH, w + (inside ? (row + i) * TERMS + term : 0), inside);
            }
        }
        close_copies();
    }

    // The same of kernels the other way round: tiles of 64 channels, a row for each term.
    __device__ __forceinline__ void stage_terms(elem* to, unsigned step) const {
        constexpr unsigned across = COLUMNS / 8;
#pragma unroll
        for (unsigned i = 0; i < DEPTH * across; i += THREADS) {
            if (DEPTH * across % THREADS != 0 && i + threadIdx.x >= DEPTH * across) break;
            const unsigned row = (i + threadIdx.x) / across, piece = (i + threadIdx.x) % across, term = step * DEPTH + row;
            const bool inside = term < TERMS && first_channel + piece * 8 < TO_C;
            const unsigned at = (term % FROM_C * TAPS + term / FROM_C) * TO_C + piece * 8;
            copy_async(to + piece / 8 * (64 * DEPTH) + row * 64 + (piece % 8 ^ row % 8) * 8, w + (inside ? at : 0), inside);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv2d_wgmma(const elem* __restrict__ source, const elem* __restrict__ w, elem* __restrict__ result
#when BIAS , const elem* __restrict__ bias
    ) {
#when !BIAS     const elem* const bias = nullptr;
    // Blocks that run together share positions, then kernels.
    constexpr unsigned down = (POSITIONS + ROWS - 1) / ROWS, across = (TO_C + COLUMNS - 1) / COLUMNS;
    constexpr unsigned steps = (TERMS + DEPTH - 1) / DEPTH;
    const Finished finished{bias};
    const u64 index = flat_workgroup();
    const unsigned group = (unsigned)(index / ((u64)down * across));
    if (group >= GROUPS) return;
    const unsigned first_channel = (unsigned)(index % across) * COLUMNS, first = (unsigned)(index / across % down) * ROWS;
    extern __shared__ uint4 shared[];
    // Tiles begin on multiples of 1024 bytes, for which there is room.
    elem* const tiles = reinterpret_cast<elem*>(shared) + (1024 - shared_address(shared) % 1024) % 1024 / 2;
    const unsigned warpgroup = threadIdx.x / 128;

    const Copies copies(source, w, group, first, first_channel);
    float sums[COLUMNS / 2] = {};
#pragma unroll
    for (unsigned step = 0; step < STEPS - 2; step++) copies.stage(tiles, step);
    for (unsigned step = 0; step < steps; step++) {
        wait_for_copies<STEPS - 3>();
        tma_fence();
        // Every warpgroup has waited for the product of two steps before, whose place the next copies take.
        __syncthreads();
        const elem* const pixels = tiles + step % STEPS * step_elems;
        const elem* const kernels = pixels + ROWS * DEPTH;
        const u64 left = wgmma_along_k(pixels + warpgroup * (64 * DEPTH));
        const u64 right = BACK ? wgmma_across_k(kernels, DEPTH) : wgmma_along_k(kernels);
        constexpr u64 next = BACK ? WGMMA_NEXT_ACROSS_K : WGMMA_NEXT_ALONG_K;
        wgmma_fence();
#pragma unroll
        for (unsigned turn = 0; turn < DEPTH / 16; turn++) {
            wgmma<false, BACK>(sums, left + turn * WGMMA_NEXT_ALONG_K, right + turn * next, true);
        }
        wgmma_commit();
        copies.stage(tiles, step + STEPS - 2);
        wgmma_wait<1>();
    }
    wgmma_wait<0>(sums);

#pragma unroll
    for (unsigned i = 0; i < COLUMNS / 2; i += 2) {
        const unsigned position = first + warpgroup * 64 + wgmma_row(i), channel = first_channel + wgmma_column(i);
        if (position >= POSITIONS || channel >= TO_C) continue;
        const unsigned of_all = group * TO_C + channel, at = position * (GROUPS * TO_C) + of_all;
        if constexpr (TO_C % 2 == 0) {
            const unsigned both = pack(finished(of_all, sums[i]), finished(of_all + 1, sums[i + 1]));
            *reinterpret_cast<unsigned*>(result + at) = both;
        } else {
            result[at] = to_elem(finished(of_all, sums[i]));
            if (channel + 1 < TO_C) result[at + 1] = to_elem(finished(of_all + 1, sums[i + 1]));
        }
    }
}

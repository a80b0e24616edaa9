// The gradient of the kernels by warpgroups, channels last: against `weights_mma`, four warps multiply together, straight from shared
// memory. A row is a weight of an output channel, a column such a channel, a term an image and a position. Blocks take parts of PART
// terms, and leave their sums to be added up. The definition is in core/src/suite/workloads/conv2d/backward.rs.
//
// A block computes ROWS weights, 64 for each warpgroup, of COLUMNS channels. Both tiles have a row of 128 bytes for each term, where
// its channels are neighbours, swizzled as the instruction takes them. Two products are under way at a time, and copies run two steps
// ahead of the latest.

#include "conv2d/common.cuh"
#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

constexpr unsigned WEIGHTS = FROM_C * TAPS, POSITIONS = IMAGES * TO, ROWS = THREADS / 128 * 64;
constexpr unsigned step_elems = (ROWS + COLUMNS) * DEPTH;
static_assert(LAST && !BACK && FROM_C % 8 == 0 && TO_C % 8 == 0, "eight neighbouring channels are copied at once");
static_assert(DEPTH == 64 && COLUMNS % 64 == 0 && STEPS > 3 && PART % DEPTH == 0, "rows of 128 bytes, in whole steps");

// Where piece `piece` of a term's row lies in a tile: 64 channels of all terms lie together. The swizzle: of eight rows each has its
// pieces in another order.
__device__ __forceinline__ unsigned place_of(unsigned row, unsigned piece) {
    return piece / 8 * (64 * DEPTH) + row * 64 + (piece % 8 ^ row % 8) * 8;
}

// A thread copies pieces of the same eight weights all along, of terms so far from each other.
constexpr unsigned across = ROWS / 8, APART = THREADS / across;
static_assert(DEPTH % APART == 0 && APART % 8 == 0, "the same place of each row");

struct Copies {
    const elem* __restrict__ source;
    const elem* __restrict__ gradient;
    unsigned group, weight, channel, term, end;
    Walk<APART> walk;

    __device__ __forceinline__ Copies(const elem* source, const elem* gradient, unsigned group, unsigned weight, unsigned channel,
                                      unsigned begin, unsigned end)
        : source(source), gradient(gradient + group * TO_C), group(group), weight(weight + threadIdx.x % across * 8),
          channel(channel), term(begin), end(end), walk(begin + threadIdx.x / across) {}

    // Begin to copy what is of the next DEPTH terms, zeros past the end.
    __device__ __forceinline__ void stage(elem* tiles, unsigned step) {
        elem* const pixels = tiles + step % STEPS * step_elems;
        elem* const to = pixels + place_of(threadIdx.x / across, threadIdx.x % across);
        const uint3 tap = tap_at(weight / FROM_C);
#pragma unroll
        for (unsigned i = 0; i < DEPTH; i += APART) {
            const Known known = walk.known();
            const Under found = under(known, tap);
            const bool inside = term + threadIdx.x / across + i < end && weight < WEIGHTS && found.there;
            const unsigned at = source_at(group, weight % FROM_C, known.image, found.position);
            copy_async(to + i * 64, source + (inside ? at : 0), inside);
            walk.advance();
        }
        constexpr unsigned wide = COLUMNS / 8;
#pragma unroll
        for (unsigned i = 0; i < DEPTH * wide; i += THREADS) {
            if (DEPTH * wide % THREADS != 0 && i + threadIdx.x >= DEPTH * wide) break;
            const unsigned row = (i + threadIdx.x) / wide, piece = (i + threadIdx.x) % wide;
            const bool inside = term + row < end && channel + piece * 8 < TO_C;
            const unsigned at = (term + row) * (GROUPS * TO_C) + channel + piece * 8;
            copy_async(pixels + ROWS * DEPTH + place_of(row, piece), gradient + (inside ? at : 0), inside);
        }
        close_copies();
        term += DEPTH;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv2d_weights_wgmma(const elem* __restrict__ source, const elem* __restrict__ gradient, float* __restrict__ parts) {
    // Blocks that run together share positions.
    constexpr unsigned down = (WEIGHTS + ROWS - 1) / ROWS, wide = (TO_C + COLUMNS - 1) / COLUMNS;
    const u64 index = flat_workgroup(), counted = index / ((u64)down * wide);
    if (counted >= (u64)PARTS * GROUPS) return;
    const unsigned group = (unsigned)(counted % GROUPS), part = (unsigned)(counted / GROUPS);
    const unsigned first_channel = (unsigned)(index % wide) * COLUMNS, first = (unsigned)(index / wide % down) * ROWS;
    const unsigned begin = min(part * PART, POSITIONS), end = min(begin + PART, POSITIONS);
    const unsigned steps = (end - begin + DEPTH - 1) / DEPTH;
    extern __shared__ uint4 shared[];
    // Tiles begin on multiples of 1024 bytes, for which there is room.
    elem* const tiles = reinterpret_cast<elem*>(shared) + (1024 - shared_address(shared) % 1024) % 1024 / 2;
    const unsigned warpgroup = threadIdx.x / 128;

    Copies copies(source, gradient, group, first, first_channel, begin, end);
    float sums[COLUMNS / 2] = {};
#pragma unroll
    for (unsigned step = 0; step < STEPS - 2; step++) copies.stage(tiles, step);
    for (unsigned step = 0; step < steps; step++) {
        wait_for_copies<STEPS - 3>();
        tma_fence();
        // Every warpgroup has waited for the product of two steps before, whose place the next copies take.
        __syncthreads();
        const elem* const pixels = tiles + step % STEPS * step_elems;
        const u64 left = wgmma_across_k(pixels + warpgroup * (64 * DEPTH), DEPTH);
        const u64 right = wgmma_across_k(pixels + ROWS * DEPTH, DEPTH);
        wgmma_fence();
#pragma unroll
        for (unsigned turn = 0; turn < DEPTH / 16; turn++) {
            wgmma<true, true>(sums, left + turn * WGMMA_NEXT_ACROSS_K, right + turn * WGMMA_NEXT_ACROSS_K, true);
        }
        wgmma_commit();
        copies.stage(tiles, step + STEPS - 2);
        wgmma_wait<1>();
    }
    wgmma_wait<0>(sums);

    // Groups lie one behind the other in each part.
    parts += counted * ((u64)TO_C * WEIGHTS);
#pragma unroll
    for (unsigned i = 0; i < COLUMNS / 2; i++) {
        const unsigned row = first + warpgroup * 64 + wgmma_row(i), column = first_channel + wgmma_column(i);
        if (row < WEIGHTS && column < TO_C) parts[(u64)column * WEIGHTS + row] = sums[i];
    }
}

// Gradient of the filters by warpgroups, channels last: four warps multiply from shared memory. A row is a weight of an output
// channel, a column such a channel, and a term an image and a position. Blocks take parts of PART terms, and leave their sums to
// be added. The definition is in core/workloads/src/ops/conv2d/backward.rs.
//
// Both tiles have a row per term, with neighbouring channels.

#include "conv2d/warpgroups.cuh"

constexpr unsigned WEIGHTS = FROM_C * TAPS, POSITIONS = IMAGES * TO;
static_assert(!BACK && FROM_C % 8 == 0 && TO_C % 8 == 0, "eight neighbouring channels are copied at once");
static_assert(BLOCK_N % 64 == 0 && PART % BLOCK_K == 0, "rows of 128 bytes, in whole steps");

// A thread copies pieces of the same eight weights in every step, of terms APART from each other.
constexpr unsigned across = BLOCK_M / 8, APART = THREADS / across;
static_assert(BLOCK_K % APART == 0 && APART % 8 == 0, "the same place of each row");

struct Copies {
    const elem* __restrict__ source;
    const elem* __restrict__ gradient;
    unsigned group, weight, channel, term, end;
    Walk<APART> walk;

    __device__ __forceinline__ Copies(const elem* source, const elem* gradient, unsigned group, unsigned weight, unsigned channel,
                                      unsigned begin, unsigned end)
        : source(source), gradient(gradient + group * TO_C), group(group), weight(weight + threadIdx.x % across * 8),
          channel(channel), term(begin), end(end), walk(begin + threadIdx.x / across) {}

    // Begins to copy the next BLOCK_K terms, zeros past the end.
    __device__ __forceinline__ void stage(elem* tiles, unsigned step) {
        elem* const pixels = tiles + step % STAGES * step_elems;
        elem* const to = pixels + place_of(threadIdx.x / across, threadIdx.x % across);
        const uint3 tap = tap_at(weight / FROM_C);
#pragma unroll
        for (unsigned i = 0; i < BLOCK_K; i += APART) {
            const Known known = walk.known();
            const Under found = under(known, tap);
            const bool inside = term + threadIdx.x / across + i < end && weight < WEIGHTS && found.there;
            const unsigned at = source_at(group, weight % FROM_C, known.image, found.position);
            copy_async(to + i * 64, source + (inside ? at : 0), inside);
            walk.advance();
        }
        stage_columns(pixels + BLOCK_M * BLOCK_K, gradient, channel, [&](unsigned row) {
            return Row{(term + row) * (GROUPS * TO_C), term + row < end};
        });
        close_copies();
        term += BLOCK_K;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv2d_weights_wgmma(const elem* __restrict__ source, const elem* __restrict__ gradient, float* __restrict__ parts) {
    // Blocks that run together share positions.
    constexpr unsigned down = (WEIGHTS + BLOCK_M - 1) / BLOCK_M, wide = (TO_C + BLOCK_N - 1) / BLOCK_N;
    const u64 index = flat_workgroup(), counted = index / ((u64)down * wide);
    if (counted >= (u64)PARTS * GROUPS) return;
    const unsigned group = (unsigned)(counted % GROUPS), part = (unsigned)(counted / GROUPS);
    const unsigned first_channel = (unsigned)(index % wide) * BLOCK_N, first = (unsigned)(index / wide % down) * BLOCK_M;
    const unsigned begin = min(part * PART, POSITIONS), end = min(begin + PART, POSITIONS);
    const unsigned steps = (end - begin + BLOCK_K - 1) / BLOCK_K;
    extern __shared__ uint4 shared[];

    Copies copies(source, gradient, group, first, first_channel, begin, end);
    float sums[BLOCK_N / 2] = {};
    multiply<true, true>(sums, tiles_in(shared), copies, steps);

    // Groups are contiguous in each part.
    parts += counted * ((u64)TO_C * WEIGHTS);
#pragma unroll
    for (unsigned i = 0; i < BLOCK_N / 2; i++) {
        const unsigned row = first + threadIdx.x / 128 * 64 + wgmma_row(i), column = first_channel + wgmma_column(i);
        if (row < WEIGHTS && column < TO_C) parts[(u64)column * WEIGHTS + row] = sums[i];
    }
}

// Implicit GEMM by warpgroups, channels last: four warps multiply from shared memory. A row is a position, a column an output
// channel, and a term a channel of the source at a tap. The definition is in core/workloads/src/ops/conv2d.
//
// Backward, for the gradient of the input, filters are transposed: all channels of the result are neighbours for each term, and
// the tile of filters has a row per term.
//
// All threads copy pieces of eight terms, and gather pixels.

#include "conv2d/warpgroups.cuh"

constexpr unsigned TERMS = FROM_C * TAPS, POSITIONS = IMAGES * TO;
// Rows copied at once, by eight threads each.
constexpr unsigned PASS = THREADS / 8;
static_assert(FROM_C % 8 == 0, "eight terms are neighbouring channels");
static_assert(!BACK || TO_C % 8 == 0 && BLOCK_N % 64 == 0, "and so are eight columns of a term, in rows of 128 bytes");
static_assert(BLOCK_M % PASS == 0 && PASS % 8 == 0, "the same place of each row");

// A thread copies the same rows in every step, at the same place of each.
struct Copies {
    const elem* __restrict__ source;
    const elem* __restrict__ w;
    unsigned group, first_channel;
    Known known[BLOCK_M / PASS];

    __device__ __forceinline__ Copies(const elem* source, const elem* w, unsigned group, unsigned first, unsigned channel)
        : source(source), w(w + group * (TO_C * TERMS) + (BACK ? 0 : channel * TERMS)), group(group), first_channel(channel) {
#pragma unroll
        for (unsigned i = 0; i < BLOCK_M / PASS; i++) known[i] = known_of(first + threadIdx.x / 8 + i * PASS);
    }

    // Begins to copy the terms from `step` times BLOCK_K on, zeros past the end.
    __device__ __forceinline__ void stage(elem* tiles, unsigned step) const {
        const unsigned row = threadIdx.x / 8, piece = threadIdx.x % 8, term = step * BLOCK_K + piece * 8;
        elem* const pixels = tiles + step % STAGES * step_elems;
        elem* const to = pixels + row * BLOCK_K + swizzled(row, piece);
        const uint3 tap = tap_at(term / FROM_C);
#pragma unroll
        for (unsigned i = 0; i < BLOCK_M / PASS; i++) {
            const Under found = under(known[i], tap);
            const bool inside = term < TERMS && found.there;
            const unsigned at = source_at(group, term % FROM_C, known[i].image, found.position);
            copy_async(to + i * PASS * BLOCK_K, source + (inside ? at : 0), inside);
        }
        if constexpr (BACK) {
            // Transposed filters.
            stage_columns(pixels + BLOCK_M * BLOCK_K, w, first_channel, [&](unsigned row) {
                const unsigned term = step * BLOCK_K + row;
                return Row{(term % FROM_C * TAPS + term / FROM_C) * TO_C, term < TERMS};
            });
        } else {
#pragma unroll
            for (unsigned i = 0; i < BLOCK_N; i += PASS) {
                if (BLOCK_N % PASS != 0 && row + i >= BLOCK_N) break;
                const bool inside = term < TERMS && first_channel + row + i < TO_C;
                copy_async(to + (BLOCK_M + i) * BLOCK_K, w + (inside ? (row + i) * TERMS + term : 0), inside);
            }
        }
        close_copies();
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv2d_wgmma(const elem* __restrict__ source, const elem* __restrict__ w, elem* __restrict__ result
#if BIAS
    , const elem* __restrict__ bias
#endif
    ) {
#if !BIAS
    const elem* const bias = nullptr;
#endif
    // Blocks that run together share positions, then filters.
    constexpr unsigned down = (POSITIONS + BLOCK_M - 1) / BLOCK_M, across = (TO_C + BLOCK_N - 1) / BLOCK_N;
    constexpr unsigned steps = (TERMS + BLOCK_K - 1) / BLOCK_K;
    const Epilogue epilogue{bias};
    const u64 index = flat_workgroup();
    const unsigned group = (unsigned)(index / ((u64)down * across));
    if (group >= GROUPS) return;
    const unsigned first_channel = (unsigned)(index % across) * BLOCK_N, first = (unsigned)(index / across % down) * BLOCK_M;
    extern __shared__ uint4 shared[];
    const Copies copies(source, w, group, first, first_channel);
    float sums[BLOCK_N / 2] = {};
    multiply<false, BACK>(sums, tiles_in(shared), copies, steps);

#pragma unroll
    for (unsigned i = 0; i < BLOCK_N / 2; i += 2) {
        const unsigned position = first + threadIdx.x / 128 * 64 + wgmma_row(i), channel = first_channel + wgmma_column(i);
        if (position >= POSITIONS || channel >= TO_C) continue;
        const unsigned of_all = group * TO_C + channel, at = position * (GROUPS * TO_C) + of_all;
        if constexpr (TO_C % 2 == 0) {
            const unsigned both = pack(epilogue(of_all, sums[i]), epilogue(of_all + 1, sums[i + 1]));
            *reinterpret_cast<unsigned*>(result + at) = both;
        } else {
            result[at] = to_elem(epilogue(of_all, sums[i]));
            if (channel + 1 < TO_C) result[at + 1] = to_elem(epilogue(of_all + 1, sums[i + 1]));
        }
    }
}

// Experts and weights of tokens, LANES threads per token, and ranks of tokens among those of an expert in a stretch. The
// definition is in core/workloads/src/ops/moe_route.
//
// A block has a stretch of TILES tiles of 32 tokens. A thread sorts entries in lists of LIST, and merges them to one. Threads of a
// token merge theirs pairwise, by shuffles. BY_PIECES: the maxima of pieces are sorted first. The token's choices are in the LIST
// pieces with the largest, and only elements of these are sorted.
//
// The tokens of a tile that chose an expert are a mask: a rank is a number of lower bits.

#include "lib/exponential.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/reduce.cuh"
#include "moe_route/lists.cuh"

constexpr unsigned TILE = 32, row_pieces = EXPERTS / WIDTH, at_once = THREADS / LANES;
// Pieces of a thread among LIST of a token.
constexpr unsigned own_pieces = (LIST + LANES - 1) / LANES;
static_assert(LANES <= 32 && TILE % at_once == 0, "threads of a token are in a warp, and tiles are whole");

// Largest element of a piece, NaN where one is.
__device__ __forceinline__ float maximum_of(const stored& x) {
#if !defined(ELEM_F32) && __CUDA_ARCH__ >= 800
    if constexpr (WIDTH >= 4) {
        // By pairs of neighbours.
        unsigned pairs[WIDTH / 2 + 1];
#pragma unroll
        for (unsigned i = 0; i + 1 < WIDTH; i += 2) pairs[i / 2] = x.at[i].bits | (unsigned)x.at[i + 1].bits << 16;
#pragma unroll
        for (unsigned half = WIDTH / 4; half > 0; half /= 2) {
#pragma unroll
            for (unsigned i = 0; i < half; i++) {
#if defined(ELEM_F16)
                asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(pairs[i]) : "r"(pairs[i + half]));
#else
                asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(pairs[i]) : "r"(pairs[i + half]));
#endif
            }
        }
        return maximum(load(elem{(unsigned short)pairs[0]}), load(elem{(unsigned short)(pairs[0] >> 16)}));
    }
#endif
    float top = load(x.at[0]);
#pragma unroll
    for (unsigned i = 1; i < WIDTH; i++) top = maximum(top, load(x.at[i]));
    return top;
}

// First entries of `count`, and of those of the other threads of the token. All lanes of a warp must call.
template <unsigned count, typename Entry>
__device__ __forceinline__ List first_of(const Entry& entry_at) {
    List list = {};
#pragma unroll
    for (unsigned l = 0; l < (count + LIST - 1) / LIST; l++) {
        List one = {};
#pragma unroll
        for (unsigned i = 0; i < LIST; i++) {
            if (l * LIST + i < count) one.at[i] = entry_at(l * LIST + i);
        }
        put_in_order(one);
        if (l == 0) {
            list = one;
        } else {
            merge(list, one);
        }
    }
#pragma unroll
    for (unsigned step = 1; step < LANES; step *= 2) {
        List other;
#pragma unroll
        for (unsigned i = 0; i < LIST; i++) other.at[i] = __shfl_xor_sync(0xFFFFFFFFu, list.at[i], step);
        merge(list, other);
    }
    return list;
}

// First entries of a token, of which this thread has the pieces `lane`, `lane + LANES` and so on.
__device__ __forceinline__ List choices_of(const stored (&kept)[PIECES], const elem* __restrict__ logits, u64 base,
                                           unsigned lane) {
    if constexpr (BY_PIECES) {
        const List pieces = first_of<PIECES>([&](unsigned i) -> entry {
            const unsigned at = lane + i * LANES;
            return at < row_pieces ? entry_of(maximum_of(kept[i]), at) : 0;
        });
        stored own[own_pieces];
        unsigned first[own_pieces];
#pragma unroll
        for (unsigned i = 0; i < own_pieces; i++) {
            entry piece = 0;
#pragma unroll
            for (unsigned j = 0; j < LANES && i * LANES + j < LIST; j++) piece = lane == j ? pieces.at[i * LANES + j] : piece;
            // Without a piece: beyond the last expert.
            first[i] = piece != 0 ? expert_of(piece) * WIDTH : EXPERTS;
            own[i] = load_stored(logits, base + min(first[i] / WIDTH, row_pieces - 1));
        }
        return first_of<own_pieces * WIDTH>([&](unsigned i) -> entry {
            const unsigned expert = first[i / WIDTH] + i % WIDTH;
            return expert < EXPERTS ? entry_of(load(own[i / WIDTH].at[i % WIDTH]), expert) : 0;
        });
    } else {
        return first_of<PIECES * WIDTH>([&](unsigned i) -> entry {
            const unsigned at = lane + i / WIDTH * LANES;
            return at < row_pieces ? entry_of(load(kept[i / WIDTH].at[i % WIDTH]), at * WIDTH + i % WIDTH) : 0;
        });
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    moe_route_choose(const elem* __restrict__ logits, float* __restrict__ weights, unsigned* __restrict__ experts,
                     unsigned* __restrict__ slots, unsigned* __restrict__ counts) {
    // Tokens of a tile by expert, and the number of those of earlier tiles.
    __shared__ unsigned masks[EXPERTS], counted[EXPERTS];
    __shared__ unsigned chosen[TILE * CHOICES];
    __shared__ float weighed[TILE * CHOICES];
    const unsigned stretch = (unsigned)flat_workgroup(), lane = threadIdx.x % LANES;
    if (stretch >= STRETCHES) return;
    for (unsigned expert = threadIdx.x; expert < EXPERTS; expert += THREADS) masks[expert] = counted[expert] = 0;
    __syncthreads();
    const unsigned end = min((stretch + 1) * TILES, (TOKENS + TILE - 1) / TILE);
    for (unsigned tile = stretch * TILES; tile < end; tile++) {
        const unsigned first = tile * TILE;
#pragma unroll 1
        for (unsigned round = 0; round < TILE / at_once; round++) {
            const unsigned within = round * at_once + threadIdx.x / LANES, token = first + within;
            const bool there = token < TOKENS;
            // Threads without a token read the last one, and take part in shuffles.
            const u64 base = (u64)(there ? token : TOKENS - 1) * row_pieces;
            stored kept[PIECES];
#pragma unroll
            for (unsigned i = 0; i < PIECES; i++) kept[i] = load_stored(logits, base + min(lane + i * LANES, row_pieces - 1));
            const List list = choices_of(kept, logits, base, lane);

            const float top = logit_of(list.at[0]);
            float shares[CHOICES], total = 0.0f;
#pragma unroll
            for (unsigned choice = 0; choice < CHOICES; choice++) {
                shares[choice] = exponential(logit_of(list.at[choice]) - top);
                total += shares[choice];
            }
#if !RENORMALISED
            total = 0.0f;
#pragma unroll
            for (unsigned i = 0; i < PIECES; i++) {
                if (lane + i * LANES < row_pieces) {
#pragma unroll
                    for (unsigned j = 0; j < WIDTH; j++) total += exponential(load(kept[i].at[j]) - top);
                }
            }
            total = lanes_sum(total, LANES);
#endif
            const float scale = 1.0f / total;
#pragma unroll
            for (unsigned choice = 0; choice < CHOICES; choice++) {
                if (choice % LANES == lane && there) {
                    const unsigned expert = expert_of(list.at[choice]);
                    chosen[within * CHOICES + choice] = expert;
                    weighed[within * CHOICES + choice] = shares[choice] * scale;
                    atomicOr(&masks[expert], 1u << within);
                }
            }
        }
        __syncthreads();
        const unsigned pairs = min(TILE, TOKENS - first) * CHOICES;
        for (unsigned i = threadIdx.x; i < pairs; i += THREADS) {
            const unsigned expert = chosen[i], before = (1u << i / CHOICES) - 1;
            const u64 at = (u64)first * CHOICES + i;
            weights[at] = weighed[i];
            experts[at] = expert;
            slots[at] = counted[expert] + __popc(masks[expert] & before);
        }
        __syncthreads();
        for (unsigned expert = threadIdx.x; expert < EXPERTS; expert += THREADS) {
            counted[expert] += __popc(masks[expert]);
            masks[expert] = 0;
        }
        __syncthreads();
    }
    for (unsigned expert = threadIdx.x; expert < EXPERTS; expert += THREADS) counts[stretch * EXPERTS + expert] = counted[expert];
}

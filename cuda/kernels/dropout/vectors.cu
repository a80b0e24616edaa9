// Dropout, a vector per thread, and at least the four elements of a counter: every random word is used. The definition is in
// core/workloads/src/ops/dropout.
//
// dropout_stored       stores the mask: a word per counter, a byte of it per element
// dropout_by_mask      drops the same elements again, by the mask
// dropout_regenerated  without a mask

#include "lib/launch.cuh"
#include "lib/philox.cuh"
#include "lib/pieces.cuh"

// Counters of a thread, and pieces.
constexpr unsigned counters = WIDTH == 8 ? 2 : 1;
constexpr unsigned pieces = 4 * counters / WIDTH;

// Words of a thread's part of a mask, moved as one.
struct alignas(4 * counters) notes {
    unsigned of[counters];
};

__device__ __forceinline__ notes draw(const unsigned* __restrict__ seed, u64 thread) {
    notes drawn;
#pragma unroll
    for (unsigned i = 0; i < counters; i++) {
        const u64 counter = thread * counters + i;
        const uint4 words = philox(make_uint4((unsigned)counter, 0, 0, 0), make_uint2(seed[0], seed[1]));
        drawn.of[i] = (words.x >= THRESHOLD ? 1u : 0u) | (words.y >= THRESHOLD ? 1u << 8 : 0u) |
                      (words.z >= THRESHOLD ? 1u << 16 : 0u) | (words.w >= THRESHOLD ? 1u << 24 : 0u);
    }
    return drawn;
}

// Elements of a thread. The last thread may have fewer, where pieces have less than four elements.
struct mine {
    piece of[pieces];
};

__device__ __forceinline__ mine load_mine(const elem* __restrict__ x, u64 thread) {
    mine values;
#pragma unroll
    for (unsigned k = 0; k < pieces; k++) {
        const u64 at = thread * pieces + k;
        values.of[k] = at < N / WIDTH ? load_piece(x, at) : piece_of(0.0f);
    }
    return values;
}

__device__ __forceinline__ void store_kept(elem* __restrict__ out, u64 thread, mine values, const notes& kept) {
#pragma unroll
    for (unsigned k = 0; k < pieces; k++) {
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) {
            const unsigned element = k * WIDTH + i;
            const bool is_kept = kept.of[element / 4] >> 8 * (element % 4) & 0xFF;
            values.of[k].at[i] = is_kept ? FACTOR * values.of[k].at[i] : 0.0f;
        }
        const u64 at = thread * pieces + k;
        if (at < N / WIDTH) store_piece(out, at, values.of[k]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dropout_stored(const elem* __restrict__ x, const unsigned* __restrict__ seed, elem* __restrict__ out,
                   unsigned* __restrict__ mask) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const mine values = load_mine(x, at);
    const notes kept = draw(seed, at);
    store_kept(out, at, values, kept);
    reinterpret_cast<notes*>(mask)[at] = kept;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dropout_by_mask(const elem* __restrict__ x, const unsigned* __restrict__ kept, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    store_kept(out, at, load_mine(x, at), reinterpret_cast<const notes*>(kept)[at]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dropout_regenerated(const elem* __restrict__ x, const unsigned* __restrict__ seed, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const mine values = load_mine(x, at);
    store_kept(out, at, values, draw(seed, at));
}

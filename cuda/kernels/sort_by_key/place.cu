// Keys and their values moved to the place of a digit, by stretches. The definition is in core/workloads/src/ops/sort_by_key.rs.
//
// All keys of smaller digits precede the keys of a digit in a stretch, and those of this digit in earlier stretches. Keys are
// ranked in batches: a warp has `own` consecutive rows of 32 keys. In each row, lanes of the same digit find each other by
// `match`, and the first of them advances the warp's count of this digit. Counts of warps are then summed, one thread per digit.
// The result does not depend on timing: the order is the same in every run.

#include "lib/launch.cuh"

// Keys of a thread per batch.
constexpr unsigned own = 8;
constexpr unsigned warps = THREADS / 32;
// Digit of an absent key.
constexpr unsigned NONE = BINS;

extern "C" __global__ void __launch_bounds__(THREADS)
    sort_by_key_place(const unsigned* __restrict__ counts, const unsigned* __restrict__ totals,
                      const unsigned* __restrict__ keys, const unsigned* __restrict__ values,
                      unsigned* __restrict__ sorted, unsigned* __restrict__ carried) {
    static_assert(BINS <= THREADS && TILES % own == 0, "a thread for each digit, and whole batches");
    __shared__ unsigned sums[THREADS];
    __shared__ unsigned of_warps[warps][BINS];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned total = threadIdx.x < BINS ? totals[threadIdx.x] : 0;
    sums[threadIdx.x] = total;
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step *= 2) {
        const unsigned more = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += more;
        __syncthreads();
    }
    // Place of the next key of this thread's digit.
    unsigned next = 0;
    if (threadIdx.x < BINS) next = sums[threadIdx.x] - total + counts[blockIdx.x * BINS + threadIdx.x];

    for (unsigned batch = 0; batch < TILES / own; batch++) {
        const u64 first = ((u64)blockIdx.x * TILES + batch * own) * THREADS + warp * 32 * own + lane;
        unsigned key[own], value[own], rank[own];
#pragma unroll
        for (unsigned i = 0; i < own; i++) {
            const u64 at = first + i * 32;
            key[i] = at < ITEMS ? keys[at] : 0;
            value[i] = at < ITEMS ? values[at] : 0;
        }
        for (unsigned bin = lane; bin < BINS; bin += 32) of_warps[warp][bin] = 0;
        __syncwarp();
#pragma unroll
        for (unsigned i = 0; i < own; i++) {
            const bool there = first + i * 32 < ITEMS;
            const unsigned digit = there ? (key[i] >> SHIFT) % BINS : NONE;
            const unsigned alike = __match_any_sync(0xFFFFFFFFu, digit);
            const unsigned below = __popc(alike & ((1u << lane) - 1));
            const unsigned before = there ? of_warps[warp][digit] : 0;
            __syncwarp();
            if (there && below == 0) of_warps[warp][digit] = before + __popc(alike);
            __syncwarp();
            rank[i] = before + below;
        }
        __syncthreads();
        if (threadIdx.x < BINS) {
#pragma unroll
            for (unsigned other = 0; other < warps; other++) {
                const unsigned count = of_warps[other][threadIdx.x];
                of_warps[other][threadIdx.x] = next;
                next += count;
            }
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < own; i++) {
            if (first + i * 32 < ITEMS) {
                const unsigned to = of_warps[warp][(key[i] >> SHIFT) % BINS] + rank[i];
                sorted[to] = key[i];
                carried[to] = value[i];
            }
        }
        // The next batch clears the counts of each warp, by itself.
        __syncwarp();
    }
}

// Hash embedding for rows sorted by group, in two stages; the second is embedding/join.
//
// hash_embedding_chunked  LANES threads process a stretch of rows, and keep the current group's sums in registers, a piece of
//                         WIDTH columns each
//
// A row is loaded and hashed by one thread, and passed on by shuffles. A group within the stretch is stored. Groups without rows
// are stored as zeros. The sums of a group that began in an earlier stretch go to part 0, those of a group that continues in the
// next to part 1.
//
// Unlike owner.cu there is no search, and long groups are divided among threads. Rows are added in order, so the result is the
// same in every run. Unlike shared.cu, all threads of a stretch visit each of its rows.

#include "hash_embedding/hash.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned ALL = 0xFFFFFFFFu;

extern "C" __global__ void __launch_bounds__(THREADS)
    hash_embedding_chunked(const unsigned* __restrict__ id, const unsigned* __restrict__ sorted,
                           const float* __restrict__ weight, float* __restrict__ out, float* __restrict__ parts) {
    const u64 team = flat_workgroup() * (THREADS / LANES) + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    // Threads without a stretch stay for the shuffles of their warp.
    const bool works = team < (u64)STRETCHES * ACROSS;
    const unsigned stretch = works ? (unsigned)(team / ACROSS) : 0;
    const unsigned at = (unsigned)(team % ACROSS) * LANES + lane;
    const bool writes = works && at < PIECES;
    const unsigned first = stretch * STRETCH, end = works ? min(ITEMS, first + STRETCH) : first;

    unsigned group = sorted[first];
    // Groups from here on have not been written.
    const unsigned open = first > 0 ? sorted[first - 1] + 1 : 0;
    bool entered = first > 0 && open == group + 1;
    piece sum = piece_of(0.0f);
    if (writes && !entered) {
        for (u64 none = open; none < group; none++) store_floats(out, none * PIECES + at, sum);
    }
    for (unsigned base = first; base < first + STRETCH; base += LANES) {
        unsigned of = 0, column = 0;
        float term = 0.0f;
        if (base + lane < end) {
            of = sorted[base + lane];
            const unsigned h = hashed(id[base + lane]);
            column = column_of(h);
            term = signed_by(h, weight[base + lane]);
        }
#pragma unroll 4
        for (unsigned k = 0; k < LANES; k++) {
            const unsigned next = __shfl_sync(ALL, of, k, LANES);
            const unsigned to = __shfl_sync(ALL, column, k, LANES) - at * WIDTH;
            const float x = __shfl_sync(ALL, term, k, LANES);
            if (base + k >= end) continue;
            if (next != group) {
                if (writes) {
                    if (entered) {
                        store_floats(parts, (u64)stretch * 2 * PIECES + at, sum);
                    } else {
                        store_floats(out, (u64)group * PIECES + at, sum);
                    }
                    const piece zeros = piece_of(0.0f);
                    for (u64 none = (u64)group + 1; none < next; none++) store_floats(out, none * PIECES + at, zeros);
                }
                entered = false;
                sum = piece_of(0.0f);
                group = next;
            }
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += to == i ? x : 0.0f;
        }
    }
    if (!writes) return;
    if (entered) {
        store_floats(parts, (u64)stretch * 2 * PIECES + at, sum);
    } else if (end < ITEMS && sorted[end] == group) {
        store_floats(parts, ((u64)stretch * 2 + 1) * PIECES + at, sum);
    } else {
        store_floats(out, (u64)group * PIECES + at, sum);
    }
    if (end == ITEMS) {
        for (u64 none = (u64)group + 1; none < GROUPS; none++) store_floats(out, none * PIECES + at, piece_of(0.0f));
    }
}

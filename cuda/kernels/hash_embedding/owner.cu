// Hash embedding for rows sorted by group, in one stage.
//
// hash_embedding_owner  LANES threads own a stretch of LANES * COLUMNS columns of one group's output row
//
// They find the group's first row by a galloping search. Up to 32 of them then take a row each: they load and hash its three
// numbers, and pass them on by shuffles. Sums stay in registers, and every column is written once, zeros included.
//
// Unlike basic.cu there are no atomics and no pass for zeros, and rows are added in order, so the result is the same in every
// run. In exchange there is a search, and every owner of a stretch reads all rows of the group, from the cache.

#include "hash_embedding/hash.cuh"
#include "lib/launch.cuh"
#include "lib/sorted.cuh"

// Threads that take rows together, and the mask of a warp.
constexpr unsigned TEAM = LANES < 32 ? LANES : 32;
constexpr unsigned ALL = 0xFFFFFFFFu;
// Marker of an absent row.
constexpr unsigned NONE = 0xFFFFFFFFu;

extern "C" __global__ void hash_embedding_owner(const unsigned* __restrict__ id, const unsigned* __restrict__ sorted,
                                                const float* __restrict__ weight, float* __restrict__ out) {
    const u64 owner = flat_workgroup() * (THREADS / LANES) + threadIdx.x / LANES;
    // Threads without a stretch stay for the shuffles of their warp.
    const bool owns = owner < (u64)GROUPS * STRETCHES;
    const unsigned mine = owns ? (unsigned)(owner / STRETCHES) : 0;
    // Neighbouring threads hold neighbouring columns, so that the final writes are contiguous.
    const unsigned first = (unsigned)(owner % STRETCHES) * (LANES * COLUMNS) + threadIdx.x % LANES;

    float acc[COLUMNS];
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; c++) acc[c] = 0.0f;

    // Groups tend to have similar sizes: the search starts at the row for equal groups.
    const unsigned guess = min(ROWS, (unsigned)((float)mine * ((float)ROWS / (float)GROUPS)));
    u64 row = owns ? first_at_least(sorted, mine, guess, ROWS) : ROWS;
    bool more = true;
    while (__any_sync(ALL, more)) {
        const u64 at = row + threadIdx.x % TEAM;
        unsigned column = NONE;
        float term = 0.0f;
        if (more && at < ROWS && sorted[at] == mine) {
            const unsigned h = hashed(id[at]);
            column = column_of(h);
            term = signed_by(h, weight[at]);
        }
        const unsigned found = __ballot_sync(ALL, column != NONE);
        // A warp that is one team stops at its last row. Several teams have a last row each.
        const unsigned rows = TEAM == 32 ? __popc(found) : TEAM;
        for (unsigned k = 0; k < rows; k++) {
            const unsigned to = __shfl_sync(ALL, column, k, TEAM);
            const float x = __shfl_sync(ALL, term, k, TEAM);
            // A comparison per register instead of an index: an indexed array would be in local memory.
#pragma unroll
            for (unsigned c = 0; c < COLUMNS; c++) acc[c] += to == first + c * LANES ? x : 0.0f;
        }
        // There may be more if the last of the team's rows was the group's.
        more = __shfl_sync(ALL, column, TEAM - 1, TEAM) != NONE;
        row += TEAM;
    }

    if (!owns) return;
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; c++) {
        const unsigned column = first + c * LANES;
        if (column < DIM) out[(u64)mine * DIM + column] = acc[c];
    }
}

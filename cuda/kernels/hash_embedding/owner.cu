// Hash embedding for rows that are sorted by group, in one stage.
//
// hash_embedding_owner  LANES threads own a stretch of LANES * COLUMNS columns of one group's output row. They find the
//                       group's first row by a galloping search, walk its rows together, keep the sums in registers and
//                       write every column once, zeros included.
//
// Against basic.cu: no atomics and no pass that writes zeros first, and rows are added in order, so the result is the
// same in every run. The price is that every owner of a stretch reads all rows of the group; they come from the cache.

#include "lib/launch.cuh"
#include "lib/sorted.cuh"

extern "C" __global__ void hash_embedding_owner(const unsigned* __restrict__ id, const unsigned* __restrict__ sorted,
                                                const float* __restrict__ weight, float* __restrict__ out) {
    const u64 owner = flat_workgroup() * (THREADS / LANES) + threadIdx.x / LANES;
    if (owner >= (u64)GROUPS * STRETCHES) return;
    const unsigned mine = (unsigned)(owner / STRETCHES);
    // Neighbouring threads hold neighbouring columns, so that the final writes are contiguous.
    const unsigned first = (unsigned)(owner % STRETCHES) * (LANES * COLUMNS) + threadIdx.x % LANES;

    float acc[COLUMNS];
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; c++) acc[c] = 0.0f;

    // Groups tend to be of like size, so the search starts where the row would lie if they were equal.
    const unsigned guess = min(ROWS, (unsigned)((float)mine * ((float)ROWS / (float)GROUPS)));
    for (unsigned row = first_at_least(sorted, mine, guess, ROWS); row < ROWS && sorted[row] == mine; row++) {
        // MurmurHash3's finaliser: the top bit is the sign, the others choose the column.
        unsigned h = id[row];
        h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
        h = (h ^ (h >> 13)) * 0xC2B2AE35u;
        h ^= h >> 16;
        const unsigned column = (h & 0x7FFFFFFFu) % DIM;
        const float x = h >> 31 ? -weight[row] : weight[row];
        // A compare per register instead of an index: an indexed array would live in memory.
#pragma unroll
        for (unsigned c = 0; c < COLUMNS; c++) acc[c] += column == first + c * LANES ? x : 0.0f;
    }

#pragma unroll
    for (unsigned c = 0; c < COLUMNS; c++) {
        const unsigned column = first + c * LANES;
        if (column < DIM) out[(u64)mine * DIM + column] = acc[c];
    }
}

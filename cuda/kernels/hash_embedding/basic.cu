// Hash embedding, the plain way, in two stages.
//
// hash_embedding_zero     writes zeros over the output: addition needs something to add to.
// hash_embedding_scatter  one thread per row adds the row's signed weight to its column with one atomic addition.
//                         Any order of rows will do, but the order of additions, and so the last bits, vary.

#include "lib/launch.cuh"

extern "C" __global__ void hash_embedding_zero(float* __restrict__ out) {
    const u64 i = flat_workgroup() * THREADS + threadIdx.x;
    if (i < (u64)GROUPS * DIM) out[i] = 0.0f;
}

extern "C" __global__ void hash_embedding_scatter(float* __restrict__ out, const unsigned* __restrict__ id,
                                                  const unsigned* __restrict__ group,
                                                  const float* __restrict__ weight) {
    const u64 row = flat_workgroup() * THREADS + threadIdx.x;
    if (row >= ROWS) return;
    // MurmurHash3's finaliser: the top bit is the sign, the others choose the column.
    unsigned h = id[row];
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    h ^= h >> 16;
    const float x = weight[row];
    atomicAdd(out + (u64)group[row] * DIM + (h & 0x7FFFFFFFu) % DIM, h >> 31 ? -x : x);
}

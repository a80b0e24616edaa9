// Hash embedding for rows sorted by group, with columns private to a block, in one stage.
//
// hash_embedding_shared  a block owns COLUMNS columns of OWNED neighbouring groups, whose rows are contiguous
//
// It finds their first and last row, adds each row to sums in shared memory, and writes every column once. Unlike owner.cu, one
// thread reads a row. Unlike basic.cu, atomic additions are in shared memory, and no pass writes zeros. The order of additions
// varies, and with it the last bits.

#include "hash_embedding/hash.cuh"
#include "lib/launch.cuh"
#include "lib/sorted.cuh"

// Rows in flight per thread.
constexpr unsigned BATCH = 4;

extern "C" __global__ void __launch_bounds__(THREADS)
    hash_embedding_shared(const unsigned* __restrict__ id, const unsigned* __restrict__ sorted,
                          const float* __restrict__ weight, float* __restrict__ out) {
    __shared__ alignas(16) float sums[OWNED * COLUMNS];
    __shared__ unsigned bounds[2];
    const u64 block = flat_workgroup();
    if (block >= (u64)OWNERS * ACROSS) return;
    const unsigned first_group = (unsigned)(block / ACROSS) * OWNED, groups = min(OWNED, GROUPS - first_group);
    const unsigned first_column = (unsigned)(block % ACROSS) * COLUMNS;
    // One thread of each of two warps, so that both searches overlap.
    if (threadIdx.x % 32 == 0 && threadIdx.x < 64) {
        const unsigned wanted = threadIdx.x == 0 ? first_group : first_group + groups;
        const unsigned guess = min(ROWS, (unsigned)((float)wanted * ((float)ROWS / (float)GROUPS)));
        bounds[threadIdx.x / 32] = first_at_least(sorted, wanted, guess, ROWS);
    }
    for (unsigned i = threadIdx.x; i < OWNED * COLUMNS; i += THREADS) sums[i] = 0.0f;
    __syncthreads();

    const u64 end = bounds[1];
    for (u64 row = (u64)bounds[0] + threadIdx.x; row < end; row += THREADS * BATCH) {
        unsigned ids[BATCH], of[BATCH];
        float weights[BATCH];
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) {
            const u64 at = min(row + i * THREADS, end - 1);
            ids[i] = id[at];
            of[i] = sorted[at] - first_group;
            weights[i] = weight[at];
        }
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) {
            const unsigned h = hashed(ids[i]);
            // Columns before the first wrap around and are out of range, as those after the last.
            const unsigned column = column_of(h) - first_column;
            if (row + i * THREADS < end && column < COLUMNS) {
                atomicAdd(&sums[of[i] * COLUMNS + column], signed_by(h, weights[i]));
            }
        }
    }
    __syncthreads();

    if constexpr (VECTORS) {
        // The sums are contiguous, and a multiple of four elements.
        float4* to = reinterpret_cast<float4*>(out + (u64)first_group * DIM);
        const float4* from = reinterpret_cast<const float4*>(sums);
        for (unsigned i = threadIdx.x; i < groups * (DIM / 4); i += THREADS) to[i] = from[i];
    } else {
        for (unsigned i = threadIdx.x; i < groups * COLUMNS; i += THREADS) {
            const unsigned column = first_column + i % COLUMNS;
            if (column < DIM) out[(u64)(first_group + i / COLUMNS) * DIM + column] = sums[i];
        }
    }
}

// int8 GEMM by instructions with four products: tiles of A and B in shared memory, 16 or 64 accumulators per thread. The
// definition is in core/workloads/src/ops/matmul_i8.rs.
//
// Thread (x, y) of 16 by 16 computes rows y + 16i and columns x + 16j: neighbours read neighbouring rows of a tile of B, and all
// sixteen the same row of A. The next tiles are in flight meanwhile, in registers.

#include "matmul_i8/common.cuh"

// Vectors of four words per staged row, including one of padding against bank conflicts. Rows staged at a time; accumulators of a
// thread along each side; steps.
constexpr unsigned ROW = PIECES + 1, PASS = 256 / PIECES, REG_SUMS = BLOCK_MN / 16, DEPTH = 4 * PIECES;
static_assert(BLOCK_MN % PASS == 0, "every thread stages as many vectors");

// Words at .. at + 3 of a row, zeros outside; `at` is a multiple of four.
__device__ __forceinline__ uint4 load_vec4(const unsigned* __restrict__ rows, unsigned row, unsigned end, unsigned at) {
    uint4 x = make_uint4(0, 0, 0, 0);
    if (row >= end || at >= WORDS) return x;
    const unsigned* const from = rows + (u64)row * WORDS + at;
    if constexpr (WORDS % 4 == 0) return *reinterpret_cast<const uint4*>(from);
    x.x = from[0];
    if (at + 1 < WORDS) x.y = from[1];
    if (at + 2 < WORDS) x.z = from[2];
    if (at + 3 < WORDS) x.w = from[3];
    return x;
}

extern "C" __global__ void __launch_bounds__(256, 2)
    matmul_i8_dot4(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ a_scale,
                   const float* __restrict__ b_scale, elem* __restrict__ c) {
    __shared__ uint4 a_tile[BLOCK_MN * ROW], b_tile[BLOCK_MN * ROW];
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN, down = (M + BLOCK_MN - 1) / BLOCK_MN, steps = (WORDS + DEPTH - 1) / DEPTH;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * BLOCK_MN, first_col = tile.x * BLOCK_MN;
    const unsigned x = threadIdx.x % 16, y = threadIdx.x / 16;
    // Row and vector that the thread stages first. Its others are PASS rows apart.
    const unsigned row = threadIdx.x / PIECES, along = threadIdx.x % PIECES, to = row * ROW + along;

    uint4 next_a[BLOCK_MN / PASS], next_b[BLOCK_MN / PASS];
    const auto fetch = [&](unsigned step) {
        const unsigned at = step * DEPTH + along * 4;
#pragma unroll
        for (unsigned i = 0; i < BLOCK_MN / PASS; i++) {
            next_a[i] = load_vec4(a, first_row + row + i * PASS, M, at);
            next_b[i] = load_vec4(b, first_col + row + i * PASS, N, at);
        }
    };
    int sums[REG_SUMS][REG_SUMS] = {};
    fetch(0);
    for (unsigned step = 0; step < steps; step++) {
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < BLOCK_MN / PASS; i++) {
            a_tile[to + i * PASS * ROW] = next_a[i];
            b_tile[to + i * PASS * ROW] = next_b[i];
        }
        __syncthreads();
        if (step + 1 < steps) fetch(step + 1);
#pragma unroll 1
        for (unsigned d = 0; d < PIECES; d++) {
            uint4 right[REG_SUMS];
#pragma unroll
            for (unsigned j = 0; j < REG_SUMS; j++) right[j] = b_tile[(x + 16 * j) * ROW + d];
#pragma unroll
            for (unsigned i = 0; i < REG_SUMS; i++) {
                const uint4 left = a_tile[(y + 16 * i) * ROW + d];
#pragma unroll
                for (unsigned j = 0; j < REG_SUMS; j++) {
                    sums[i][j] = __dp4a((int)left.x, (int)right[j].x, sums[i][j]);
                    sums[i][j] = __dp4a((int)left.y, (int)right[j].y, sums[i][j]);
                    sums[i][j] = __dp4a((int)left.z, (int)right[j].z, sums[i][j]);
                    sums[i][j] = __dp4a((int)left.w, (int)right[j].w, sums[i][j]);
                }
            }
        }
    }

#pragma unroll
    for (unsigned i = 0; i < REG_SUMS; i++) {
        const unsigned at = first_row + y + 16 * i;
        const float left = at < M ? a_scale[at] : 0.0f;
#pragma unroll
        for (unsigned j = 0; j < REG_SUMS; j++) store(c, b_scale, at, first_col + x + 16 * j, left, sums[i][j]);
    }
}

// Matrix product: against `naive`, a block stages tiles of A and B in shared memory, and a thread keeps a block of sums in
// registers. The definition is in core/src/suite/workloads/matmul.rs.
//
// 16 x 16 threads. Thread (x, y) computes SQUARES x SQUARES squares of 4 x 4 elements, 64 rows or columns apart: rows
// 4y + 64i.. and columns 4x + 64j... Both tiles are staged as vectors along the rows of their matrices.

#include "lib/launch.cuh"
#include "matmul/common.cuh"

// Columns column .. column + 3 of a row of a matrix of height rows and width columns, widened; zeros outside.
template <unsigned height, unsigned width>
__device__ __forceinline__ float4 load_four(const elem* __restrict__ matrix, unsigned row, unsigned column) {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= height || column >= width) return x;
    const elem* const from = matrix + (u64)row * width + column;
    if constexpr (width % 4 == 0) {
        const elem4 four = *reinterpret_cast<const elem4*>(from);
        x = make_float4(load(four.at[0]), load(four.at[1]), load(four.at[2]), load(four.at[3]));
    } else {
        x.x = load(from[0]);
        if (column + 1 < width) x.y = load(from[1]);
        if (column + 2 < width) x.z = load(from[2]);
        if (column + 3 < width) x.w = load(from[3]);
    }
    return x;
}

__device__ __forceinline__ void add_scaled(float4& sum, float factor, const float4& x) {
    sum.x = fmaf(factor, x.x, sum.x);
    sum.y = fmaf(factor, x.y, sum.y);
    sum.z = fmaf(factor, x.z, sum.z);
    sum.w = fmaf(factor, x.w, sum.w);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    matmul_tiled(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    constexpr unsigned across = (N + TILE - 1) / TILE, down = (M + TILE - 1) / TILE;
    constexpr unsigned a_row = DEPTH / 4, b_row = TILE / 4, rows = 4 * SQUARES;
    __shared__ float4 a_tile[TILE * a_row];
    __shared__ float4 b_tile[DEPTH * b_row];

    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * TILE, first_col = tile.x * TILE;
    const unsigned tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;

    float4 sums[rows][SQUARES];
#pragma unroll
    for (unsigned r = 0; r < rows; r++) {
#pragma unroll
        for (unsigned s = 0; s < SQUARES; s++) sums[r][s] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    for (unsigned depth = 0; depth < K; depth += DEPTH) {
        __syncthreads();
#pragma unroll
        for (unsigned e = thread; e < TILE * a_row; e += 256) {
            a_tile[e] = load_four<M, K>(a, first_row + e / a_row, depth + e % a_row * 4);
        }
#pragma unroll
        for (unsigned e = thread; e < DEPTH * b_row; e += 256) {
            b_tile[e] = load_four<K, N>(b, depth + e / b_row, first_col + e % b_row * 4);
        }
        __syncthreads();
#pragma unroll
        for (unsigned d = 0; d < a_row; d++) {
            float4 right[SQUARES][4];
#pragma unroll
            for (unsigned i = 0; i < rows; i++) right[i / 4][i % 4] = b_tile[(d * 4 + i % 4) * b_row + tx + i / 4 * 16];
#pragma unroll
            for (unsigned r = 0; r < rows; r++) {
                const float4 left = a_tile[(r / 4 * 64 + ty * 4 + r % 4) * a_row + d];
#pragma unroll
                for (unsigned s = 0; s < SQUARES; s++) {
                    add_scaled(sums[r][s], left.x, right[s][0]);
                    add_scaled(sums[r][s], left.y, right[s][1]);
                    add_scaled(sums[r][s], left.z, right[s][2]);
                    add_scaled(sums[r][s], left.w, right[s][3]);
                }
            }
        }
    }

#pragma unroll
    for (unsigned r = 0; r < rows; r++) {
        const unsigned row = first_row + r / 4 * 64 + ty * 4 + r % 4;
        if (row >= M) continue;
#pragma unroll
        for (unsigned s = 0; s < SQUARES; s++) {
            const unsigned col = first_col + s * 64 + tx * 4;
            const float4 x = sums[r][s];
            const elem4 four = {to_elem(x.x), to_elem(x.y), to_elem(x.z), to_elem(x.w)};
            elem* const to = c + (u64)row * N + col;
            if constexpr (N % 4 == 0) {
                if (col < N) *reinterpret_cast<elem4*>(to) = four;
            } else {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    if (col + e < N) to[e] = four.at[e];
                }
            }
        }
    }
}

// Products of matrices, tile by tile: a block stages tiles of A and B in shared memory, and a thread keeps a block of sums in
// registers. What becomes of a sum is said by `finished(at, column, sum)`.
//
// 16 x 16 threads. Thread (x, y) computes SQUARES x SQUARES squares of 4 x 4 elements, 64 rows or columns apart: rows
// 4y + 64i.. and columns 4x + 64j... Tiles of A are kept as vectors along its rows, tiles of B likewise; what is stored the
// other way round is read and turned in blocks of 4 x 4.

#include "lib/launch.cuh"
#include "lib/product.cuh"

// Elements column .. column + 3 of a stored row of a matrix, widened; zeros outside.
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

// A tile of `rows` by `columns` elements as vectors along its rows; where `turned`, from a matrix that holds its transpose.
template <unsigned rows, unsigned columns, bool turned, unsigned height, unsigned width>
__device__ __forceinline__ void stage_vectors(float4* tile, const elem* __restrict__ matrix, unsigned row, unsigned column,
                                              unsigned thread) {
    constexpr unsigned across = columns / 4;
    if constexpr (turned) {
        // Neighbouring threads take neighbours along the shorter side, the depth.
        constexpr unsigned down = rows / 4, fast = down < across ? down : across;
#pragma unroll
        for (unsigned e = thread; e < down * across; e += 256) {
            const unsigned r = (down < across ? e % fast : e / fast) * 4, c = (down < across ? e / fast : e % fast) * 4;
            float4 x[4];
#pragma unroll
            for (unsigned i = 0; i < 4; i++) x[i] = load_four<height, width>(matrix, column + c + i, row + r);
            float4* const to = tile + r * across + c / 4;
            to[0] = make_float4(x[0].x, x[1].x, x[2].x, x[3].x);
            to[across] = make_float4(x[0].y, x[1].y, x[2].y, x[3].y);
            to[2 * across] = make_float4(x[0].z, x[1].z, x[2].z, x[3].z);
            to[3 * across] = make_float4(x[0].w, x[1].w, x[2].w, x[3].w);
        }
    } else {
#pragma unroll
        for (unsigned e = thread; e < rows * across; e += 256) {
            tile[e] = load_four<height, width>(matrix, row + e / across, column + e % across * 4);
        }
    }
}

__device__ __forceinline__ void add_scaled(float4& sum, float factor, const float4& x) {
    sum.x = fmaf(factor, x.x, sum.x);
    sum.y = fmaf(factor, x.y, sum.y);
    sum.z = fmaf(factor, x.z, sum.z);
    sum.w = fmaf(factor, x.w, sum.w);
}

template <typename Finished>
__device__ __forceinline__ void product_tiled(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                              const Finished& finished) {
    constexpr unsigned across = (N + TILE - 1) / TILE, down = (M + TILE - 1) / TILE;
    constexpr unsigned a_row = DEPTH / 4, b_row = TILE / 4, rows = 4 * SQUARES;
    __shared__ float4 a_tile[TILE * a_row];
    __shared__ float4 b_tile[DEPTH * b_row];

    const u64 index = flat_workgroup(), tiles = (u64)across * down, batch = index / tiles;
    if (batch >= BATCH) return;
    const uint2 tile = tile_at(index % tiles, across, down);
    const unsigned first_row = tile.y * TILE, first_col = tile.x * TILE;
    const unsigned tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
    a += batch * a_elements;
    b += batch * b_elements;

    float4 sums[rows][SQUARES];
#pragma unroll
    for (unsigned r = 0; r < rows; r++) {
#pragma unroll
        for (unsigned s = 0; s < SQUARES; s++) sums[r][s] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    for (unsigned depth = 0; depth < K; depth += DEPTH) {
        __syncthreads();
        stage_vectors<TILE, DEPTH, A_BY_COLUMN, A_HEIGHT, A_WIDTH>(a_tile, a, first_row, depth, thread);
        stage_vectors<DEPTH, TILE, B_BY_COLUMN, B_HEIGHT, B_WIDTH>(b_tile, b, depth, first_col, thread);
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
            const u64 at = batch * c_elements + (u64)row * N + col;
            const float sum[4] = {sums[r][s].x, sums[r][s].y, sums[r][s].z, sums[r][s].w};
            if constexpr (N % 4 == 0) {
                if (col >= N) continue;
                elem4 four;
#pragma unroll
                for (unsigned e = 0; e < 4; e++) four.at[e] = to_elem(finished(at + e, col + e, sum[e]));
                *reinterpret_cast<elem4*>(c + at) = four;
            } else {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    if (col + e < N) c[at + e] = to_elem(finished(at + e, col + e, sum[e]));
                }
            }
        }
    }
}

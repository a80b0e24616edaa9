// Tiles of rows in shared memory as f32, for attention on CUDA cores: blocks of 16 x 16 threads. Thread (tx, ty) works on rows 4
// ty .. 4 ty + 3 of a tile.

#include "lib/launch.cuh"

// Columns column .. column + 3 of a row of Q, K or V, widened. Zeros past the end, and outside the length, where memory may hold
// NaN.
__device__ __forceinline__ float4 load_columns(const elem* __restrict__ row, unsigned column, bool inside) {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if constexpr (D % 4 == 0) {
        // Rows start at multiples of four elements of an aligned buffer.
        if (inside && column < D) {
            const elem4 four = *reinterpret_cast<const elem4*>(row + column);
            x = make_float4(load(four.at[0]), load(four.at[1]), load(four.at[2]), load(four.at[3]));
        }
    } else if (inside) {
        if (column + 0 < D) x.x = load(row[column + 0]);
        if (column + 1 < D) x.y = load(row[column + 1]);
        if (column + 2 < D) x.z = load(row[column + 2]);
        if (column + 3 < D) x.w = load(row[column + 3]);
    }
    return x;
}

// Copies DEPTH columns of `count` rows to shared memory, transposed, so that the product reads neighbouring words.
template <unsigned count>
__device__ __forceinline__ void stage_transposed(float* __restrict__ stage, const elem* __restrict__ matrix,
                                                 unsigned first, unsigned end, unsigned d0) {
    const unsigned thread = threadIdx.y * 16 + threadIdx.x;
    for (unsigned i = thread; i < count * (DEPTH / 4); i += 256) {
        const unsigned row = i % count, column = i / count * 4;
        const float4 x = load_columns(matrix + (u64)(first + row) * D, d0 + column, first + row < end);
        stage[(column + 0) * count + row] = x.x;
        stage[(column + 1) * count + row] = x.y;
        stage[(column + 2) * count + row] = x.z;
        stage[(column + 3) * count + row] = x.w;
    }
}

__device__ __forceinline__ void add_scaled(float4& acc, float weight, const float4& value) {
    acc.x = fmaf(weight, value.x, acc.x);
    acc.y = fmaf(weight, value.y, acc.y);
    acc.z = fmaf(weight, value.z, acc.z);
    acc.w = fmaf(weight, value.w, acc.w);
}

// sums += weights * the `count` rows of a matrix from `first` on: rows 4 ty .. 4 ty + 3, column vectors tx + 16 j. `staged` holds
// VALUES rows at a time. Begins with a barrier, after which all weights are stored and the stage is free.
template <unsigned count>
__device__ __forceinline__ void add_rows(float4 (&sums)[4][COLUMNS], const float (*weights)[count], float4* staged,
                                         const elem* __restrict__ matrix, unsigned first, unsigned end) {
    const unsigned tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
    for (unsigned part = 0; part < count; part += VALUES) {
        __syncthreads();
        for (unsigned i = thread; i < VALUES * COLUMNS * 16; i += 256) {
            const unsigned row = first + part + i / (COLUMNS * 16);
            staged[i] = load_columns(matrix + (u64)row * D, i % (COLUMNS * 16) * 4, row < end);
        }
        __syncthreads();
#pragma unroll
        for (unsigned four = 0; four < VALUES; four += 4) {
            float4 weight[4];
#pragma unroll
            for (unsigned r = 0; r < 4; r++) {
                weight[r] = *reinterpret_cast<const float4*>(&weights[4 * ty + r][part + four]);
            }
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) {
                const float4* const value = staged + four * (COLUMNS * 16) + tx + 16 * j;
                const float4 v0 = value[0], v1 = value[COLUMNS * 16];
                const float4 v2 = value[2 * COLUMNS * 16], v3 = value[3 * COLUMNS * 16];
#pragma unroll
                for (unsigned r = 0; r < 4; r++) {
                    add_scaled(sums[r][j], weight[r].x, v0);
                    add_scaled(sums[r][j], weight[r].y, v1);
                    add_scaled(sums[r][j], weight[r].z, v2);
                    add_scaled(sums[r][j], weight[r].w, v3);
                }
            }
        }
    }
}

// Stores columns column .. column + 3 of a row, as far as they exist.
__device__ __forceinline__ void store_columns(elem* __restrict__ row, unsigned column, const float4& x) {
    const elem4 four = {to_elem(x.x), to_elem(x.y), to_elem(x.z), to_elem(x.w)};
    if constexpr (D % 4 == 0) {
        if (column < D) *reinterpret_cast<elem4*>(row + column) = four;
    } else {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            if (column + e < D) row[column + e] = four.at[e];
        }
    }
}

// Tiled GEMM with gathered operands: 256 threads stage BLOCK_M rows of A and BLOCK_N columns of B, BLOCK_K terms at a time. A
// thread keeps REG_TILES_M x REG_TILES_N register tiles of 4 x 4 sums. `factors` stages the operands and stores the results.
//
// Both tiles are stored term by term, as slots of four: four neighbouring rows of A, or four columns of B chosen by `factors`.

#include "lib/elem.cuh"

constexpr unsigned M_VEC4 = BLOCK_M / 4, N_VEC4 = BLOCK_N / 4, K_VEC4 = BLOCK_K / 4;
static_assert(256 % N_VEC4 == 0 && N_VEC4 * K_VEC4 <= 256, "a thread stages one slot of columns");

__device__ __forceinline__ float4 load_vec4(const elem* from) {
    const elem4 vec4 = *reinterpret_cast<const elem4*>(from);
    return make_float4(load(vec4.at[0]), load(vec4.at[1]), load(vec4.at[2]), load(vec4.at[3]));
}

// Transposes four vectors along the terms to four along the slot, `row` vectors apart.
__device__ __forceinline__ void store_transposed(float4* to, unsigned row, const float4 (&x)[4]) {
    to[0] = make_float4(x[0].x, x[1].x, x[2].x, x[3].x);
    to[row] = make_float4(x[0].y, x[1].y, x[2].y, x[3].y);
    to[2 * row] = make_float4(x[0].z, x[1].z, x[2].z, x[3].z);
    to[3 * row] = make_float4(x[0].w, x[1].w, x[2].w, x[3].w);
}

__device__ __forceinline__ void add_scaled(float4& sum, float factor, const float4& x) {
    sum.x = fmaf(factor, x.x, sum.x);
    sum.y = fmaf(factor, x.y, sum.y);
    sum.z = fmaf(factor, x.z, sum.z);
    sum.w = fmaf(factor, x.w, sum.w);
}

// Sums over terms from .. to - 1 of a tile. Either the rows or the columns of its results are neighbours in memory.
template <bool rows_together, typename Factors>
__device__ __forceinline__ void tile_product(const Factors& factors, unsigned from, unsigned to) {
    constexpr unsigned threads_m = M_VEC4 / REG_TILES_M, threads_n = N_VEC4 / REG_TILES_N;
    static_assert(threads_m * threads_n == 256, "every thread has the same number of register tiles");
    __shared__ float4 left_tile[BLOCK_K * M_VEC4];
    __shared__ float4 right_tile[BLOCK_K * N_VEC4];
    // Neighbouring threads store neighbouring elements.
    const unsigned thread = threadIdx.x;
    const unsigned down = rows_together ? thread % threads_m : thread / threads_n;
    const unsigned across = rows_together ? thread / threads_m : thread % threads_n;

    float4 sums[REG_TILES_M][REG_TILES_N][4];
#pragma unroll
    for (unsigned r = 0; r < REG_TILES_M; r++) {
#pragma unroll
        for (unsigned s = 0; s < REG_TILES_N; s++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) sums[r][s][i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }
    for (unsigned depth = from; depth < to; depth += BLOCK_K) {
        __syncthreads();
        factors.stage_left(left_tile, depth, to);
        factors.stage_right(right_tile, depth, to);
        __syncthreads();
#pragma unroll
        for (unsigned d = 0; d < BLOCK_K; d++) {
            float4 right[REG_TILES_N];
#pragma unroll
            for (unsigned s = 0; s < REG_TILES_N; s++) right[s] = right_tile[d * N_VEC4 + across + s * threads_n];
#pragma unroll
            for (unsigned r = 0; r < REG_TILES_M; r++) {
                const float4 left = left_tile[d * M_VEC4 + down + r * threads_m];
#pragma unroll
                for (unsigned s = 0; s < REG_TILES_N; s++) {
                    add_scaled(sums[r][s][0], left.x, right[s]);
                    add_scaled(sums[r][s][1], left.y, right[s]);
                    add_scaled(sums[r][s][2], left.z, right[s]);
                    add_scaled(sums[r][s][3], left.w, right[s]);
                }
            }
        }
    }
#pragma unroll
    for (unsigned r = 0; r < REG_TILES_M; r++) {
#pragma unroll
        for (unsigned s = 0; s < REG_TILES_N; s++) {
            // Transposed: four rows of one column per vector.
            const float4(&x)[4] = sums[r][s];
            const unsigned row = 4 * (down + r * threads_m), slot = across + s * threads_n;
            factors.store_column(row, slot, 0, make_float4(x[0].x, x[1].x, x[2].x, x[3].x));
            factors.store_column(row, slot, 1, make_float4(x[0].y, x[1].y, x[2].y, x[3].y));
            factors.store_column(row, slot, 2, make_float4(x[0].z, x[1].z, x[2].z, x[3].z));
            factors.store_column(row, slot, 3, make_float4(x[0].w, x[1].w, x[2].w, x[3].w));
        }
    }
}

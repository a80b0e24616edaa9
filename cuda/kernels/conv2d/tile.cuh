// Products by tiles whose factors are gathered: a block of 256 threads stages TILE_ROWS rows of the left factor and TILE_COLUMNS
// columns of the right one, DEPTH terms at a time, and a thread keeps ROW_SQUARES x COLUMN_SQUARES squares of 4 x 4 sums in
// registers. Where they are from, and what becomes of sums, is said by `factors`.
//
// Both tiles lie term by term, as slots of four. A slot of the left tile is four neighbouring rows; one of the right tile is four
// columns, which ones is the business of `factors`.

#include "lib/elem.cuh"

constexpr unsigned LEFT = TILE_ROWS / 4, RIGHT = TILE_COLUMNS / 4, FOURS = DEPTH / 4;
static_assert(256 % RIGHT == 0 && RIGHT * FOURS <= 256, "a thread stages the same slot of columns all along");

__device__ __forceinline__ float4 four_of(const elem* from) {
    const elem4 four = *reinterpret_cast<const elem4*>(from);
    return make_float4(load(four.at[0]), load(four.at[1]), load(four.at[2]), load(four.at[3]));
}

// Four vectors along the terms as four along the slot, each `row` vectors behind the one before.
__device__ __forceinline__ void put_turned(float4* to, unsigned row, const float4 (&x)[4]) {
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

// The sums over terms from .. to - 1 of a tile, of whose results rows or else columns are neighbours in memory.
template <bool rows_together, typename Factors>
__device__ __forceinline__ void tile_product(const Factors& factors, unsigned from, unsigned to) {
    constexpr unsigned down_threads = LEFT / ROW_SQUARES, across_threads = RIGHT / COLUMN_SQUARES;
    static_assert(down_threads * across_threads == 256, "every thread has as many squares");
    __shared__ float4 left_tile[DEPTH * LEFT];
    __shared__ float4 right_tile[DEPTH * RIGHT];
    // Neighbouring threads store neighbours.
    const unsigned thread = threadIdx.x;
    const unsigned down = rows_together ? thread % down_threads : thread / across_threads;
    const unsigned across = rows_together ? thread / down_threads : thread % across_threads;

    float4 sums[ROW_SQUARES][COLUMN_SQUARES][4];
#pragma unroll
    for (unsigned r = 0; r < ROW_SQUARES; r++) {
#pragma unroll
        for (unsigned s = 0; s < COLUMN_SQUARES; s++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) sums[r][s][i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }
    for (unsigned depth = from; depth < to; depth += DEPTH) {
        __syncthreads();
        factors.stage_left(left_tile, depth, to);
        factors.stage_right(right_tile, depth, to);
        __syncthreads();
#pragma unroll
        for (unsigned d = 0; d < DEPTH; d++) {
            float4 right[COLUMN_SQUARES];
#pragma unroll
            for (unsigned s = 0; s < COLUMN_SQUARES; s++) right[s] = right_tile[d * RIGHT + across + s * across_threads];
#pragma unroll
            for (unsigned r = 0; r < ROW_SQUARES; r++) {
                const float4 left = left_tile[d * LEFT + down + r * down_threads];
#pragma unroll
                for (unsigned s = 0; s < COLUMN_SQUARES; s++) {
                    add_scaled(sums[r][s][0], left.x, right[s]);
                    add_scaled(sums[r][s][1], left.y, right[s]);
                    add_scaled(sums[r][s][2], left.z, right[s]);
                    add_scaled(sums[r][s][3], left.w, right[s]);
                }
            }
        }
    }
#pragma unroll
    for (unsigned r = 0; r < ROW_SQUARES; r++) {
#pragma unroll
        for (unsigned s = 0; s < COLUMN_SQUARES; s++) {
            // Turned: four rows of one column in each vector.
            const float4(&x)[4] = sums[r][s];
            const unsigned row = 4 * (down + r * down_threads), slot = across + s * across_threads;
            factors.put_column(row, slot, 0, make_float4(x[0].x, x[1].x, x[2].x, x[3].x));
            factors.put_column(row, slot, 1, make_float4(x[0].y, x[1].y, x[2].y, x[3].y));
            factors.put_column(row, slot, 2, make_float4(x[0].z, x[1].z, x[2].z, x[3].z));
            factors.put_column(row, slot, 3, make_float4(x[0].w, x[1].w, x[2].w, x[3].w));
        }
    }
}

// fp8 GEMM on CUDA cores: tiles of A and B in shared memory as f32, accumulators in registers. The definition is in
// core/workloads/src/ops/matmul_f8.
//
// Thread (x, y) of 16 x 16 computes REG_TILES x REG_TILES register tiles of 4 x 4 elements: rows 4y + 64i.. and columns 4x + 64j...
// Tiles have one index of K after the other. A thread reads a word each of four rows, decodes them and stores four vectors. By
// block, the scales are multiplied into the tiles. Words of the next tiles are in flight meanwhile, in registers.

#include "lib/product_order.cuh"
#include "matmul_f8/codes.cuh"

// Vectors of a row or column of a tile. Words of a tile along K, and steps.
constexpr unsigned ROW = BLOCK_MN / 4, ACROSS = BLOCK_K / 4, STEPS = (WORDS + ACROSS - 1) / ACROSS;
static_assert(ROW * ACROSS == 128 && BLOCK_MN == 64 * REG_TILES, "half of the threads stage a tile");

// Words of four rows, and the first of the rows.
struct Words {
    unsigned x[4];
    unsigned row;

    // Words at `at` of the rows, zeros outside.
    __device__ __forceinline__ void fetch(const unsigned* __restrict__ rows, unsigned end, unsigned at) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++) x[i] = row + i < end && at < WORDS ? rows[(u64)(row + i) * WORDS + at] : 0;
    }

    // Stores four vectors to a tile. `number(code)` decodes, and `factor(row)` is the scale of a row.
    template <typename Number, typename Factor>
    __device__ __forceinline__ void store(float4* to, unsigned end, const Number& number, const Factor& factor) const {
        float factors[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) factors[i] = factor(min(row + i, end - 1));
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            to[e * ROW] = make_float4(number(x[0] >> 8 * e) * factors[0], number(x[1] >> 8 * e) * factors[1],
                                      number(x[2] >> 8 * e) * factors[2], number(x[3] >> 8 * e) * factors[3]);
        }
    }
};

// Scale of a result: that of its parts is in the tiles.
__device__ __forceinline__ float scale_of(const float* __restrict__ a_scale, const float* __restrict__ b_scale, unsigned row,
                                          unsigned col) {
#if BY_BLOCK
    return 1.0f;
#else
    return scale_of_a(a_scale, row, 0) * scale_of_b(b_scale, col, 0);
#endif
}

__device__ __forceinline__ void add_scaled(float4& sum, float factor, const float4& x) {
    sum.x = fmaf(factor, x.x, sum.x);
    sum.y = fmaf(factor, x.y, sum.y);
    sum.z = fmaf(factor, x.z, sum.z);
    sum.w = fmaf(factor, x.w, sum.w);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    matmul_f8_tiled(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ a_scale,
                    const float* __restrict__ b_scale, elem* __restrict__ c) {
    __shared__ float4 a_tile[BLOCK_K * ROW], b_tile[BLOCK_K * ROW];
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN, down = (M + BLOCK_MN - 1) / BLOCK_MN;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * BLOCK_MN, first_col = tile.x * BLOCK_MN, thread = threadIdx.x;
    // A warp is 8 x 4 threads, and neighbours share a row, then a column: it reads each vector once.
    const unsigned x = thread % 64 / 32 * 8 + thread % 16 / 2, y = thread / 64 * 4 + thread % 32 / 16 * 2 + thread % 2;
    // The first half of the threads stages A, the other one B: this vector of rows, and this word.
    const bool of_a = thread < 128;
    const unsigned rows = thread % 128 % ROW, along = thread % 128 / ROW, to = along * 4 * ROW + rows;
    Words words{{}, (of_a ? first_row : first_col) + rows * 4};
    const auto fetch = [&](unsigned at) {
        if (of_a) {
            words.fetch(a, M, at);
        } else {
            words.fetch(b, N, at);
        }
    };

    float4 sums[4 * REG_TILES][REG_TILES] = {};
    fetch(along);
    for (unsigned step = 0; step < STEPS; step++) {
        __syncthreads();
        const unsigned at = step * ACROSS + along, part = min(at * 4 / SPAN, PARTS - 1);
        if (of_a) {
            words.store(a_tile + to, M, decoded_of_a, [&](unsigned row) { return BY_BLOCK ? scale_of_a(a_scale, row, part) : 1.0f; });
        } else {
            words.store(b_tile + to, N, decoded, [&](unsigned row) { return BY_BLOCK ? scale_of_b(b_scale, row, part) : 1.0f; });
        }
        __syncthreads();
        if (step + 1 < STEPS) fetch(at + ACROSS);
#pragma unroll 8
        for (unsigned d = 0; d < BLOCK_K; d++) {
            float4 right[REG_TILES];
#pragma unroll
            for (unsigned j = 0; j < REG_TILES; j++) right[j] = b_tile[d * ROW + x + j * 16];
#pragma unroll
            for (unsigned i = 0; i < REG_TILES; i++) {
                const float4 left = a_tile[d * ROW + y + i * 16];
#pragma unroll
                for (unsigned j = 0; j < REG_TILES; j++) {
                    add_scaled(sums[i * 4][j], left.x, right[j]);
                    add_scaled(sums[i * 4 + 1][j], left.y, right[j]);
                    add_scaled(sums[i * 4 + 2][j], left.z, right[j]);
                    add_scaled(sums[i * 4 + 3][j], left.w, right[j]);
                }
            }
        }
    }

#pragma unroll
    for (unsigned r = 0; r < 4 * REG_TILES; r++) {
        const unsigned row = first_row + r / 4 * 64 + y * 4 + r % 4;
        if (row >= M) continue;
#pragma unroll
        for (unsigned j = 0; j < REG_TILES; j++) {
            const unsigned col = first_col + j * 64 + x * 4;
            const float sum[4] = {sums[r][j].x, sums[r][j].y, sums[r][j].z, sums[r][j].w};
            elem* const out = c + (u64)row * N + col;
#if VEC4_STORES
            if (col >= N) continue;
            elem4 vec4;
#pragma unroll
            for (unsigned e = 0; e < 4; e++) vec4.at[e] = to_elem(sum[e] * scale_of(a_scale, b_scale, row, col + e));
            *reinterpret_cast<elem4*>(out) = vec4;
#else
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                if (col + e < N) out[e] = to_elem(sum[e] * scale_of(a_scale, b_scale, row, col + e));
            }
#endif
        }
    }
}

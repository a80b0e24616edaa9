// int8 GEMM on tensor cores: warp-wide products of 16 x 32 and 32 x 8. The definition is in core/workloads/src/ops/matmul_i8.rs.
//
// A block computes a tile of BLOCK_M x BLOCK_N, each warp 64 rows of 64 columns, as in lib/product_mma.cuh. Tiles of A and B are
// copied asynchronously, STAGES - 1 steps ahead. Both have rows along K, so that fragments are not transposed.

#include "lib/mma_loop.cuh"
#include "matmul_i8/common.cuh"

constexpr unsigned WARPS_N = BLOCK_N / 64;
static_assert(BLOCK_M / 64 * WARPS_N * 32 == THREADS && BLOCK_K % 32 == 0, "a warp per 64 x 64 elements, whole instructions");

// Bytes per staged row, and per stage of both tiles.
constexpr unsigned ROW_BYTES = BLOCK_K + PADDING, STAGE_BYTES = (BLOCK_M + BLOCK_N) * ROW_BYTES;

// Begins to copy bytes `at` .. at + BLOCK_K of rows first .. first + count - 1, zeros outside.
template <unsigned count>
__device__ __forceinline__ void stage_tile(unsigned char* tile, const unsigned* __restrict__ rows, unsigned first, unsigned end,
                                           unsigned at) {
    constexpr unsigned bytes = 4 * WORDS, pieces = BLOCK_K / 16, pass = THREADS / pieces;
    static_assert(THREADS % pieces == 0 && count % pass == 0, "every thread copies as many pieces");
    const unsigned row = threadIdx.x / pieces, along = threadIdx.x % pieces * 16;
#pragma unroll
    for (unsigned i = 0; i < count; i += pass) {
        const unsigned from_row = first + row + i;
        unsigned char* const to = tile + (row + i) * ROW_BYTES + along;
        const bool inside = from_row < end && at + along < bytes;
        const unsigned char* const from =
            reinterpret_cast<const unsigned char*>(rows) + (inside ? (u64)from_row * bytes + at + along : 0);
        if constexpr (bytes % 16 == 0) {
            copy_async(to, from, inside);
        } else {
            // Rows do not start at multiples of 16 bytes.
#pragma unroll
            for (unsigned word = 0; word < 16; word += 4) {
                const bool there = inside && at + along + word < bytes;
                copy_word_async(to + word, there ? from + word : from, there);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS)
    matmul_i8_mma(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ a_scale,
                  const float* __restrict__ b_scale, elem* __restrict__ c) {
    constexpr unsigned across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + BLOCK_M - 1) / BLOCK_M;
    constexpr unsigned steps = (4 * WORDS + BLOCK_K - 1) / BLOCK_K;
    extern __shared__ uint4 shared[];
    unsigned char* const staged = reinterpret_cast<unsigned char*>(shared);
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * BLOCK_M, first_col = tile.x * BLOCK_N;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned warp_row = warp / WARPS_N * 64, warp_col = warp % WARPS_N * 64;

    // Past the end zeros are written and groups are empty, so that waits can count groups.
    const auto stage = [&](unsigned step) {
        unsigned char* const a_tile = staged + step % STAGES * STAGE_BYTES;
        stage_tile<BLOCK_M>(a_tile, a, first_row, M, step * BLOCK_K);
        stage_tile<BLOCK_N>(a_tile + BLOCK_M * ROW_BYTES, b, first_col, N, step * BLOCK_K);
        close_copies();
    };

    // A fragment of A has 16 rows and 32 bytes. Two fragments of B have eight rows each.
    const auto load = [&](const unsigned char* a_tile, unsigned k, unsigned (&left)[4][4], unsigned (&right)[4][4]) {
        const unsigned char* const b_tile = a_tile + BLOCK_M * ROW_BYTES;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            load_matrices(left[i], a_tile + (warp_row + 16 * i + lane % 16) * ROW_BYTES + k * 32 + lane / 16 * 16);
        }
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            const unsigned row = warp_col + 16 * j + lane / 16 * 8 + lane % 8;
            load_matrices(right[j], b_tile + row * ROW_BYTES + k * 32 + lane / 8 % 2 * 16);
        }
    };

    int sums[4][8][4] = {};
    mma_loop<steps, BLOCK_K / 32, STAGE_BYTES>(sums, staged, stage, load);

    // In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8.
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            const unsigned row = first_row + warp_row + 16 * i + lane / 4 + 8 * r;
            const float scale = row < M ? a_scale[row] : 0.0f;
#pragma unroll
            for (unsigned j = 0; j < 8; j++) {
                const unsigned col = first_col + warp_col + 8 * j + lane % 4 * 2;
                store2(c, b_scale, row, col, scale, sums[i][j][2 * r], sums[i][j][2 * r + 1]);
            }
        }
    }
}

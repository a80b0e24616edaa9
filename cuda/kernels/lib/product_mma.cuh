// GEMMs on tensor cores: warp-wide products of 16-bit floats, sums in f32. `epilogue(at, column, sum)` transforms a sum.
//
// Four warps compute a tile of 128 x 128, each 64 rows of 64 columns. Square tiles of warps minimise reads of shared memory,
// which limit narrower ones. Tiles of A and B are copied asynchronously in their layouts, STAGES - 1 steps ahead. Fragments are
// transposed as they are loaded.

#include "lib/launch.cuh"
#include "lib/mma_loop.cuh"
#include "lib/product.cuh"

static_assert(BLOCK_MN == 128 && THREADS == 128 && BLOCK_K % 16 == 0, "two by two warps, in steps of one instruction's depth");

// Staged tile: BLOCK_MN rows of BLOCK_K elements, or, where rows run along M or N, BLOCK_K rows of BLOCK_MN.
template <bool across>
struct Staged {
    static constexpr unsigned rows = across ? BLOCK_K : BLOCK_MN, columns = across ? BLOCK_MN : BLOCK_K, row = columns + PADDING;
    static constexpr unsigned elements = rows * row;
};
using StagedA = Staged<A_TRANSPOSED>;
using StagedB = Staged<!B_TRANSPOSED>;
constexpr unsigned stage_elems = StagedA::elements + StagedB::elements;

// Copies a tile to shared memory from a matrix with a row stride of `stride` elements, zeros from row `end` and column `width`
// on. Without branches: it overlaps with products.
template <typename Tile, unsigned width, unsigned stride>
__device__ __forceinline__ void stage_rows(elem* tile, const elem* __restrict__ matrix, unsigned row0, unsigned col0,
                                           unsigned end) {
    constexpr unsigned across = Tile::columns / 8, rows = THREADS / across;
    static_assert(THREADS % across == 0 && Tile::rows % rows == 0, "every thread copies as many pieces of eight");
    const unsigned row = row0 + threadIdx.x / across, column = col0 + threadIdx.x % across * 8;
    elem* const to = tile + threadIdx.x / across * Tile::row + threadIdx.x % across * 8;
    const elem* const from = matrix + (u64)row * stride + column;
#pragma unroll
    for (unsigned i = 0; i < Tile::rows; i += rows) {
        const bool inside = row + i < end && column < width;
        if constexpr (width % 8 == 0 && stride % 8 == 0) {
            copy_async(to + i * Tile::row, from + (u64)i * stride, inside);
        } else {
            // Rows do not start at multiples of 16 bytes.
#pragma unroll
            for (unsigned e = 0; e < 8; e++) {
                to[i * Tile::row + e] = inside && column + e < width ? from[(u64)i * stride + e] : elem{0};
            }
        }
    }
}

// Copies a tile of a stored matrix of `height` by `width`.
template <typename Tile, unsigned height, unsigned width>
__device__ __forceinline__ void stage_tile(elem* tile, const elem* __restrict__ matrix, unsigned row0, unsigned col0) {
    stage_rows<Tile, width, width>(tile, matrix, row0, col0, height);
}

// Rows r .. r + 15 and columns d .. d + 15 of a tile of A.
__device__ __forceinline__ void load_left(unsigned (&x)[4], const elem* tile, unsigned r, unsigned d, unsigned lane) {
    if constexpr (A_TRANSPOSED) {
        load_matrices_transposed(x, tile + (d + lane / 16 * 8 + lane % 8) * StagedA::row + r + lane / 8 % 2 * 8);
    } else {
        load_matrices(x, tile + (r + lane % 16) * StagedA::row + d + lane / 16 * 8);
    }
}

// Rows d .. d + 15 and columns c .. c + 15 of a tile of B.
__device__ __forceinline__ void load_right(unsigned (&x)[4], const elem* tile, unsigned d, unsigned c, unsigned lane) {
    if constexpr (B_TRANSPOSED) {
        load_matrices(x, tile + (c + lane / 16 * 8 + lane % 8) * StagedB::row + d + lane / 8 % 2 * 8);
    } else {
        load_matrices_transposed(x, tile + (d + lane % 16) * StagedB::row + c + lane / 16 * 8);
    }
}

// Computes a tile. `stage_tiles(a_tile, b_tile, d)` copies the terms from d on, zeros past the end, in successive steps.
// `store(row, column, x, y)` receives two neighbouring sums of a row.
template <typename StageTiles, typename Store>
__device__ __forceinline__ void product_mma_of(const StageTiles& stage_tiles, const Store& store) {
    constexpr unsigned steps = (K + BLOCK_K - 1) / BLOCK_K;
    extern __shared__ uint4 shared[];
    elem* const staged = reinterpret_cast<elem*>(shared);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned warp_row = warp / 2 * 64, warp_col = warp % 2 * 64;

    // Past the end zeros are written and groups are empty, so that waits can count groups.
    const auto stage = [&](unsigned step) {
        elem* const a_tile = staged + step % STAGES * stage_elems;
        stage_tiles(a_tile, a_tile + StagedA::elements, step * BLOCK_K);
        close_copies();
    };

    const auto load = [&](const elem* a_tile, unsigned k, unsigned (&left)[4][4], unsigned (&right)[4][4]) {
        const elem* const b_tile = a_tile + StagedA::elements;
        const unsigned d = k * 16;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) load_left(left[i], a_tile, warp_row + 16 * i, d, lane);
#pragma unroll
        for (unsigned j = 0; j < 4; j++) load_right(right[j], b_tile, d, warp_col + 16 * j, lane);
    };

    float sums[4][8][4] = {};
    mma_loop<steps, BLOCK_K / 16, stage_elems>(sums, staged, stage, load);

    // In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8.
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
#pragma unroll
            for (unsigned j = 0; j < 8; j++) {
                store(warp_row + 16 * i + lane / 4 + 8 * r, warp_col + 8 * j + lane % 4 * 2, sums[i][j][2 * r],
                    sums[i][j][2 * r + 1]);
            }
        }
    }
}

// Tile of matrix `batch` of C from a row and a column on. Rows from `end` on are not stored.
template <typename Epilogue>
__device__ __forceinline__ void product_mma_tile(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                                 unsigned first_row, unsigned first_col, unsigned end, u64 batch,
                                                 const Epilogue& epilogue) {
    const auto stage_tiles = [&](elem* a_tile, elem* b_tile, unsigned d) {
        stage_tile<StagedA, A_HEIGHT, A_WIDTH>(a_tile, a, A_TRANSPOSED ? d : first_row, A_TRANSPOSED ? first_row : d);
        stage_tile<StagedB, B_HEIGHT, B_WIDTH>(b_tile, b, B_TRANSPOSED ? first_col : d, B_TRANSPOSED ? d : first_col);
    };
    product_mma_of(stage_tiles, [&](unsigned tile_row, unsigned tile_col, float x, float y) {
        const unsigned row = first_row + tile_row, col = first_col + tile_col;
        if (row >= end) return;
        const u64 at = batch * c_elements + (u64)row * N + col;
        if constexpr (N % 2 == 0) {
            if (col >= N) return;
            *reinterpret_cast<unsigned*>(c + at) = pack(epilogue(at, col, x), epilogue(at + 1, col + 1, y));
        } else {
            if (col < N) c[at] = to_elem(epilogue(at, col, x));
            if (col + 1 < N) c[at + 1] = to_elem(epilogue(at + 1, col + 1, y));
        }
    });
}

template <typename Epilogue>
__device__ __forceinline__ void product_mma(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                            const Epilogue& epilogue) {
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN, down = (M + BLOCK_MN - 1) / BLOCK_MN;
    const u64 index = flat_workgroup(), tiles = (u64)across * down, batch = index / tiles;
    if (batch >= BATCH) return;
    const uint2 tile = tile_at(index % tiles, across, down);
    product_mma_tile(a + batch * a_elements, b + batch * b_elements, c, tile.y * BLOCK_MN, tile.x * BLOCK_MN, M,
                     batch, epilogue);
}

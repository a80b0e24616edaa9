// Tiled GEMM on CUDA cores: tiles of A and B in shared memory, accumulators in registers. `epilogue(at, column, sum)` transforms
// a sum.
//
// Thread (x, y) of 16 x 16 computes REG_TILES x REG_TILES register tiles of 4 x 4 elements, 64 rows or columns apart: rows 4y +
// 64i.. and columns 4x + 64j... Both tiles are stored as vectors along M or N, one index of K after the other; transposed
// operands are transposed on their way there. Tiles are loaded a step ahead, into registers, with two stages and one barrier per
// step.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#include "lib/launch.cuh"
#include "lib/product.cuh"

// f32 with large tiles: two indices of K unrolled, registers as the compiler chooses. Otherwise: all unrolled, two blocks per
// multiprocessor.
constexpr bool ROLLED = REG_TILES == 2 && sizeof(elem) == 4;
constexpr unsigned UNROLL = ROLLED ? 2 : BLOCK_K, BLOCKS = ROLLED ? 1 : 2;
static_assert(BLOCK_K % 4 == 0, "transposed tiles are read four indices of K at a time");

// Elements column .. column + 3 of a stored row of a matrix, widened; zeros outside.
template <unsigned height, unsigned width>
__device__ __forceinline__ float4 load_vec4(const elem* __restrict__ matrix, unsigned row, unsigned column) {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= height || column >= width) return x;
    const elem* const from = matrix + (u64)row * width + column;
    if constexpr (width % 4 == 0) {
        const elem4 vec4 = *reinterpret_cast<const elem4*>(from);
        x = make_float4(load(vec4.at[0]), load(vec4.at[1]), load(vec4.at[2]), load(vec4.at[3]));
    } else {
        x.x = load(from[0]);
        if (column + 1 < width) x.y = load(from[1]);
        if (column + 2 < width) x.z = load(from[2]);
        if (column + 3 < width) x.w = load(from[3]);
    }
    return x;
}

// A tile of BLOCK_MN rows or columns of C by BLOCK_K. The matrix's stored rows run along K where `transposed`, and otherwise
// along rows or columns of C.
template <bool transposed, unsigned height, unsigned width>
struct Tile {
    // Floats from one index of K to the next; padding avoids bank conflicts of transposed stores. Number of vectors, and vectors
    // per thread.
    static constexpr unsigned STRIDE = BLOCK_MN + (transposed ? 4 : 0), VECTORS = BLOCK_K * BLOCK_MN / 4, LOADS = (VECTORS + 255) / 256;
    static constexpr unsigned SIZE = BLOCK_K * STRIDE;
    float4 next[LOADS];

    __device__ __forceinline__ void fetch(const elem* __restrict__ matrix, unsigned first, unsigned depth, unsigned thread) {
#pragma unroll
        for (unsigned i = 0; i < LOADS; i++) {
            const unsigned e = thread + i * 256;
            if (VECTORS % 256 != 0 && e >= VECTORS) break;
            next[i] = transposed ? load_vec4<height, width>(matrix, first + e / (BLOCK_K / 4), depth + e % (BLOCK_K / 4) * 4)
                             : load_vec4<height, width>(matrix, depth + e / (BLOCK_MN / 4), first + e % (BLOCK_MN / 4) * 4);
        }
    }

    __device__ __forceinline__ void store(float* tile, unsigned thread) const {
#pragma unroll
        for (unsigned i = 0; i < LOADS; i++) {
            const unsigned e = thread + i * 256;
            if (VECTORS % 256 != 0 && e >= VECTORS) break;
            if constexpr (transposed) {
                float* const to = tile + e % (BLOCK_K / 4) * 4 * STRIDE + e / (BLOCK_K / 4);
                to[0] = next[i].x;
                to[STRIDE] = next[i].y;
                to[2 * STRIDE] = next[i].z;
                to[3 * STRIDE] = next[i].w;
            } else {
                *reinterpret_cast<float4*>(tile + e / (BLOCK_MN / 4) * STRIDE + e % (BLOCK_MN / 4) * 4) = next[i];
            }
        }
    }
};

__device__ __forceinline__ void add_scaled(float4& sum, float factor, const float4& x) {
    sum.x = fmaf(factor, x.x, sum.x);
    sum.y = fmaf(factor, x.y, sum.y);
    sum.z = fmaf(factor, x.z, sum.z);
    sum.w = fmaf(factor, x.w, sum.w);
}

// Tile of matrix `batch` of C from a row and a column on. Rows from `end` on are not stored.
template <typename Epilogue>
__device__ __forceinline__ void product_tile(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                             unsigned first_row, unsigned first_col, unsigned end, u64 batch,
                                             const Epilogue& epilogue) {
    constexpr unsigned rows = 4 * REG_TILES, steps = (K + BLOCK_K - 1) / BLOCK_K;
    using TileA = Tile<!A_TRANSPOSED, A_HEIGHT, A_WIDTH>;
    using TileB = Tile<B_TRANSPOSED, B_HEIGHT, B_WIDTH>;
    __shared__ __align__(16) float a_tile[2 * TileA::SIZE];
    __shared__ __align__(16) float b_tile[2 * TileB::SIZE];

    const unsigned thread = threadIdx.y * 16 + threadIdx.x;
    // A warp is 8 x 4 threads, and neighbours share a row, then a column: it reads each vector once.
    const unsigned x = thread % 64 / 32 * 8 + thread % 16 / 2, y = thread / 64 * 4 + thread % 32 / 16 * 2 + thread % 2;

    float4 sums[rows][REG_TILES];
#pragma unroll
    for (unsigned r = 0; r < rows; r++) {
#pragma unroll
        for (unsigned s = 0; s < REG_TILES; s++) sums[r][s] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    TileA of_a;
    TileB of_b;
    of_a.fetch(a, first_row, 0, thread);
    of_b.fetch(b, first_col, 0, thread);
    of_a.store(a_tile, thread);
    of_b.store(b_tile, thread);
    __syncthreads();
    for (unsigned step = 0; step < steps; step++) {
        const unsigned depth = (step + 1) * BLOCK_K, to = (step + 1) % 2;
        const bool more = step + 1 < steps;
        if (more) {
            of_a.fetch(a, first_row, depth, thread);
            of_b.fetch(b, first_col, depth, thread);
        }
        const float* const left_from = a_tile + step % 2 * TileA::SIZE + y * 4;
        const float* const right_from = b_tile + step % 2 * TileB::SIZE + x * 4;
#pragma unroll UNROLL
        for (unsigned d = 0; d < BLOCK_K; d++) {
            float4 right[REG_TILES];
#pragma unroll
            for (unsigned s = 0; s < REG_TILES; s++) {
                right[s] = *reinterpret_cast<const float4*>(right_from + d * TileB::STRIDE + s * 64);
            }
#pragma unroll
            for (unsigned i = 0; i < REG_TILES; i++) {
                const float4 left = *reinterpret_cast<const float4*>(left_from + d * TileA::STRIDE + i * 64);
#pragma unroll
                for (unsigned s = 0; s < REG_TILES; s++) {
                    add_scaled(sums[i * 4][s], left.x, right[s]);
                    add_scaled(sums[i * 4 + 1][s], left.y, right[s]);
                    add_scaled(sums[i * 4 + 2][s], left.z, right[s]);
                    add_scaled(sums[i * 4 + 3][s], left.w, right[s]);
                }
            }
        }
        if (more) {
            of_a.store(a_tile + to * TileA::SIZE, thread);
            of_b.store(b_tile + to * TileB::SIZE, thread);
        }
        __syncthreads();
    }

#pragma unroll
    for (unsigned r = 0; r < rows; r++) {
        const unsigned row = first_row + r / 4 * 64 + y * 4 + r % 4;
        if (row >= end) continue;
#pragma unroll
        for (unsigned s = 0; s < REG_TILES; s++) {
            const unsigned col = first_col + s * 64 + x * 4;
            const u64 at = batch * c_elements + (u64)row * N + col;
            const float sum[4] = {sums[r][s].x, sums[r][s].y, sums[r][s].z, sums[r][s].w};
            if constexpr (N % 4 == 0) {
                if (col >= N) continue;
                elem4 vec4;
#pragma unroll
                for (unsigned e = 0; e < 4; e++) vec4.at[e] = to_elem(epilogue(at + e, col + e, sum[e]));
                *reinterpret_cast<elem4*>(c + at) = vec4;
            } else {
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    if (col + e < N) c[at + e] = to_elem(epilogue(at + e, col + e, sum[e]));
                }
            }
        }
    }
}

template <typename Epilogue>
__device__ __forceinline__ void product_tiled(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                              const Epilogue& epilogue) {
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN, down = (M + BLOCK_MN - 1) / BLOCK_MN;
    const u64 index = flat_workgroup(), tiles = (u64)across * down, batch = index / tiles;
    if (batch >= BATCH) return;
    const uint2 tile = tile_at(index % tiles, across, down);
    product_tile(a + batch * a_elements, b + batch * b_elements, c, tile.y * BLOCK_MN, tile.x * BLOCK_MN, M, batch, epilogue);
}

// Matrix product on tensor cores: against `tiled`, a warp multiplies matrices of 16-bit floats as a whole and sums in f32.
// The definition is in core/src/suite/workloads/matmul.rs.
//
// Eight warps compute a tile of 128 x 128, each 64 rows of 32 columns. Tiles of A and B are copied asynchronously, as
// many steps ahead as fit beside the one in use.

#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "matmul/common.cuh"

static_assert(TILE == 128 && DEPTH % 16 == 0, "two by four warps of 64 x 32, in steps of one instruction's depth");

// Elements in a staged row.
constexpr unsigned a_row = DEPTH + PADDING, b_row = TILE + PADDING;
constexpr unsigned step_elems = TILE * a_row + DEPTH * b_row;

// Copy a tile of `rows` by `columns` elements to shared memory, zeros outside the matrix of `height` by `width`.
template <unsigned rows, unsigned columns, unsigned height, unsigned width>
__device__ __forceinline__ void stage_tile(elem* tile, const elem* __restrict__ matrix, unsigned row0, unsigned col0) {
#pragma unroll
    for (unsigned i = threadIdx.x; i < rows * (columns / 8); i += 256) {
        const unsigned row = row0 + i / (columns / 8), column = col0 + i % (columns / 8) * 8;
        elem* const to = tile + i / (columns / 8) * (columns + PADDING) + i % (columns / 8) * 8;
        const bool inside = row < height && column < width;
        const elem* const from = matrix + (inside ? (u64)row * width + column : 0);
        if constexpr (width % 8 == 0) {
            copy_async(to, from, inside);
        } else {
            // Rows do not start at multiples of 16 bytes.
#pragma unroll
            for (unsigned e = 0; e < 8; e++) to[e] = inside && column + e < width ? from[e] : elem{0};
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    matmul_mma(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    constexpr unsigned across = (N + TILE - 1) / TILE, down = (M + TILE - 1) / TILE;
    constexpr unsigned steps = (K + DEPTH - 1) / DEPTH;
    extern __shared__ uint4 shared[];
    elem* const staged = reinterpret_cast<elem*>(shared);

    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * TILE, first_col = tile.x * TILE;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned warp_row = warp / 4 * 64, warp_col = warp % 4 * 32;

    // Every call closes a group of copies, an empty one past the end, so that waiting can count groups.
    const auto stage = [&](unsigned step) {
        if (step < steps) {
            elem* const a_tile = staged + step % STEPS * step_elems;
            stage_tile<TILE, DEPTH, M, K>(a_tile, a, first_row, step * DEPTH);
            stage_tile<DEPTH, TILE, K, N>(a_tile + TILE * a_row, b, step * DEPTH, first_col);
        }
        close_copies();
    };

    float sums[4][4][4] = {};
#pragma unroll
    for (unsigned step = 0; step < STEPS - 1; step++) stage(step);
    for (unsigned step = 0; step < steps; step++) {
        wait_for_copies<STEPS - 2>();
        // Ends the reading of the step before, too, whose place the next copies take.
        __syncthreads();
        stage(step + STEPS - 1);
        const elem* const a_tile = staged + step % STEPS * step_elems;
        const elem* const b_tile = a_tile + TILE * a_row;
#pragma unroll
        for (unsigned d = 0; d < DEPTH; d += 16) {
            unsigned left[4][4], right[2][4];
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                load_matrices(left[i], a_tile + (warp_row + 16 * i + lane % 16) * a_row + d + lane / 16 * 8);
            }
#pragma unroll
            for (unsigned j = 0; j < 2; j++) {
                load_matrices_transposed(right[j], b_tile + (d + lane % 16) * b_row + warp_col + 16 * j + lane / 16 * 8);
            }
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
#pragma unroll
                for (unsigned j = 0; j < 4; j++) {
                    multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

    // In a fragment of results a lane holds two neighbouring columns in row lane / 4 and in the row eight below.
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            const unsigned row = first_row + warp_row + 16 * i + lane / 4 + 8 * r;
            if (row >= M) continue;
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                const unsigned col = first_col + warp_col + 8 * j + lane % 4 * 2;
                const float x = sums[i][j][2 * r], y = sums[i][j][2 * r + 1];
                elem* const to = c + (u64)row * N + col;
                if constexpr (N % 2 == 0) {
                    if (col < N) *reinterpret_cast<unsigned*>(to) = pack(x, y);
                } else {
                    if (col < N) to[0] = to_elem(x);
                    if (col + 1 < N) to[1] = to_elem(y);
                }
            }
        }
    }
}

// Products of matrices on tensor cores: a warp multiplies matrices of 16-bit floats as a whole and sums in f32. What becomes
// of a sum is said by `finished(at, column, sum)`.
//
// Eight warps compute a tile of 128 x 128, each 64 rows of 32 columns. Tiles of A and B are copied asynchronously as they are
// stored, as many steps ahead as fit beside the one in use; fragments are turned as they are loaded, where they must be.

#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/product.cuh"

static_assert(TILE == 128 && DEPTH % 16 == 0, "two by four warps of 64 x 32, in steps of one instruction's depth");

// A tile as it is stored: TILE rows of DEPTH elements, or, where its rows go across the depth, DEPTH rows of TILE.
template <bool across>
struct Staged {
    static constexpr unsigned rows = across ? DEPTH : TILE, columns = across ? TILE : DEPTH, row = columns + PADDING;
    static constexpr unsigned elements = rows * row;
};
using StagedA = Staged<A_BY_COLUMN>;
using StagedB = Staged<!B_BY_COLUMN>;
constexpr unsigned step_elems = StagedA::elements + StagedB::elements;

// Copy a tile to shared memory, zeros outside the stored matrix of `height` by `width`.
template <typename Tile, unsigned height, unsigned width>
__device__ __forceinline__ void stage_tile(elem* tile, const elem* __restrict__ matrix, unsigned row0, unsigned col0) {
    constexpr unsigned across = Tile::columns / 8;
#pragma unroll
    for (unsigned i = threadIdx.x; i < Tile::rows * across; i += 256) {
        const unsigned row = row0 + i / across, column = col0 + i % across * 8;
        elem* const to = tile + i / across * Tile::row + i % across * 8;
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

// Rows r .. r + 15 and columns d .. d + 15 of a tile of A.
__device__ __forceinline__ void load_left(unsigned (&x)[4], const elem* tile, unsigned r, unsigned d, unsigned lane) {
    if constexpr (A_BY_COLUMN) {
        load_matrices_transposed(x, tile + (d + lane / 16 * 8 + lane % 8) * StagedA::row + r + lane / 8 % 2 * 8);
    } else {
        load_matrices(x, tile + (r + lane % 16) * StagedA::row + d + lane / 16 * 8);
    }
}

// Rows d .. d + 15 and columns c .. c + 15 of a tile of B.
__device__ __forceinline__ void load_right(unsigned (&x)[4], const elem* tile, unsigned d, unsigned c, unsigned lane) {
    if constexpr (B_BY_COLUMN) {
        load_matrices(x, tile + (c + lane / 16 * 8 + lane % 8) * StagedB::row + d + lane / 8 % 2 * 8);
    } else {
        load_matrices_transposed(x, tile + (d + lane % 16) * StagedB::row + c + lane / 16 * 8);
    }
}

template <typename Finished>
__device__ __forceinline__ void product_mma(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                            const Finished& finished) {
    constexpr unsigned across = (N + TILE - 1) / TILE, down = (M + TILE - 1) / TILE;
    constexpr unsigned steps = (K + DEPTH - 1) / DEPTH;
    extern __shared__ uint4 shared[];
    elem* const staged = reinterpret_cast<elem*>(shared);

    const u64 index = flat_workgroup(), tiles = (u64)across * down, batch = index / tiles;
    if (batch >= BATCH) return;
    const uint2 tile = tile_at(index % tiles, across, down);
    const unsigned first_row = tile.y * TILE, first_col = tile.x * TILE;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned warp_row = warp / 4 * 64, warp_col = warp % 4 * 32;
    a += batch * a_elements;
    b += batch * b_elements;

    // Every call closes a group of copies, an empty one past the end, so that waiting can count groups.
    const auto stage = [&](unsigned step) {
        if (step < steps) {
            elem* const a_tile = staged + step % STEPS * step_elems;
            const unsigned d = step * DEPTH;
            stage_tile<StagedA, A_HEIGHT, A_WIDTH>(a_tile, a, A_BY_COLUMN ? d : first_row, A_BY_COLUMN ? first_row : d);
            stage_tile<StagedB, B_HEIGHT, B_WIDTH>(a_tile + StagedA::elements, b, B_BY_COLUMN ? first_col : d,
                                                   B_BY_COLUMN ? d : first_col);
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
        const elem* const b_tile = a_tile + StagedA::elements;
#pragma unroll
        for (unsigned d = 0; d < DEPTH; d += 16) {
            unsigned left[4][4], right[2][4];
#pragma unroll
            for (unsigned i = 0; i < 4; i++) load_left(left[i], a_tile, warp_row + 16 * i, d, lane);
#pragma unroll
            for (unsigned j = 0; j < 2; j++) load_right(right[j], b_tile, d, warp_col + 16 * j, lane);
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
                const u64 at = batch * c_elements + (u64)row * N + col;
                const float x = sums[i][j][2 * r], y = sums[i][j][2 * r + 1];
                if constexpr (N % 2 == 0) {
                    if (col >= N) continue;
                    *reinterpret_cast<unsigned*>(c + at) = pack(finished(at, col, x), finished(at + 1, col + 1, y));
                } else {
                    if (col < N) c[at] = to_elem(finished(at, col, x));
                    if (col + 1 < N) c[at + 1] = to_elem(finished(at + 1, col + 1, y));
                }
            }
        }
    }
}

// Implicit GEMM on tensor cores: warp-wide products of 16-bit floats, sums in f32. With channels last, a row is a position and a
// column an output channel; otherwise the reverse. Two results in a fragment are then neighbours in memory.
//
// Backward, filters are transposed: a stage before transposes `w`, unless channels are last. Then the channels of the result are
// neighbours for each term, as rows of B.

#include "conv2d/common.cuh"
#include "lib/product_mma.cuh"

static_assert(K == FROM_C * TAPS, "a term is a channel of the source at a tap");
static_assert(!A_TRANSPOSED && B_TRANSPOSED == (LAST && !BACK), "as pixels and kernels lie");

// Channels last: BLOCK_MN positions by BLOCK_K terms. A thread copies pieces of eight terms, of the same four positions in every
// step.
struct PositionsDown {
    static constexpr unsigned across = BLOCK_K / 8, rows = THREADS / across, each = BLOCK_MN / rows;
    const elem* __restrict__ source;
    unsigned group;
    Known known[each];

    __device__ __forceinline__ PositionsDown(const elem* from, unsigned group, unsigned first) : source(from), group(group) {
#pragma unroll
        for (unsigned i = 0; i < each; i++) known[i] = known_of(first + threadIdx.x / across + i * rows);
    }

    __device__ __forceinline__ void stage(elem* tile, unsigned d) const {
        const unsigned term = d + threadIdx.x % across * 8;
        elem* const to = tile + threadIdx.x / across * StagedA::row + threadIdx.x % across * 8;
        if constexpr (FROM_C % 8 == 0) {
            const uint3 tap = tap_at(term / FROM_C);
#pragma unroll
            for (unsigned i = 0; i < each; i++) {
                const Under found = under(known[i], tap);
                const bool inside = term < K && found.there;
                const unsigned at = source_at(group, term % FROM_C, known[i].image, found.position);
                copy_async(to + i * rows * StagedA::row, source + (inside ? at : 0), inside);
            }
        } else {
#pragma unroll
            for (unsigned e = 0; e < 8; e++) {
                const uint3 tap = tap_at((term + e) / FROM_C);
#pragma unroll
                for (unsigned i = 0; i < each; i++) {
                    const Under found = under(known[i], tap);
                    elem x{0};
                    if (term + e < K && found.there) {
                        x = source[source_at(group, (term + e) % FROM_C, known[i].image, found.position)];
                    }
                    to[i * rows * StagedA::row + e] = x;
                }
            }
        }
    }
};

// Otherwise: BLOCK_K terms by BLOCK_MN positions. Neighbouring threads take neighbouring positions, the same in every step.
struct PositionsAcross {
    const elem* __restrict__ source;
    unsigned group;
    Known known;

    __device__ __forceinline__ PositionsAcross(const elem* from, unsigned group, unsigned first)
        : source(from), group(group), known(known_of(first + threadIdx.x)) {
        static_assert(THREADS == BLOCK_MN, "a column for each thread");
    }

    __device__ __forceinline__ void stage(elem* tile, unsigned d) const {
#pragma unroll
        for (unsigned e = 0; e < BLOCK_K; e++) {
            const unsigned term = d + e;
            const Under found = under(known, tap_at(term % TAPS));
            elem x{0};
            if (term < K && found.there) x = source[source_at(group, term / TAPS, known.image, found.position)];
            tile[e * StagedB::row + threadIdx.x] = x;
        }
    }
};

// Channels last, backward: BLOCK_K terms by BLOCK_MN channels of the result, from the filters of a group as stored.
__device__ __forceinline__ void stage_kernels(elem* tile, const elem* __restrict__ w, unsigned first, unsigned d) {
    constexpr unsigned across = BLOCK_MN / 8, rows = THREADS / across;
    const unsigned column = first + threadIdx.x % across * 8;
#pragma unroll
    for (unsigned i = 0; i < BLOCK_K; i += rows) {
        const unsigned term = d + threadIdx.x / across + i;
        const elem* const from = w + (term % FROM_C * TAPS + term / FROM_C) * TO_C + column;
        elem* const to = tile + (threadIdx.x / across + i) * StagedB::row + threadIdx.x % across * 8;
        const bool inside = term < K && column < TO_C;
        if constexpr (TO_C % 8 == 0) {
            copy_async(to, inside ? from : w, inside);
        } else {
#pragma unroll
            for (unsigned e = 0; e < 8; e++) to[e] = inside && column + e < TO_C ? from[e] : elem{0};
        }
    }
}

// A tile of the result: its group, first row and first column.
struct TileOfBlock {
    unsigned group, row, column;
};

__device__ __forceinline__ TileOfBlock tile_of_block() {
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN, down = (M + BLOCK_MN - 1) / BLOCK_MN;
    const u64 index = flat_workgroup(), tiles = (u64)across * down;
    const uint2 tile = tile_at(index % tiles, across, down);
    return {(unsigned)(index / tiles), tile.y * BLOCK_MN, tile.x * BLOCK_MN};
}

// Computes a tile. `store(row, column, x, y)` receives two neighbouring sums of a row of the tile.
template <typename Store>
__device__ __forceinline__ void convolution_mma(const elem* __restrict__ source, const elem* __restrict__ w,
                                                const TileOfBlock& tile, const Store& store) {
    w += (u64)tile.group * TO_C * K;
    if constexpr (LAST) {
        const PositionsDown pixels(source, tile.group, tile.row);
        const auto stage_tiles = [&](elem* a_tile, elem* b_tile, unsigned d) {
            pixels.stage(a_tile, d);
            if constexpr (BACK) {
                stage_kernels(b_tile, w, tile.column, d);
            } else {
                stage_tile<StagedB, B_HEIGHT, B_WIDTH>(b_tile, w, tile.column, d);
            }
        };
        product_mma_of(stage_tiles, store);
    } else {
        const PositionsAcross pixels(source, tile.group, tile.column);
        const auto stage_tiles = [&](elem* a_tile, elem* b_tile, unsigned d) {
            stage_tile<StagedA, A_HEIGHT, A_WIDTH>(a_tile, w, tile.row, d);
            pixels.stage(b_tile, d);
        };
        product_mma_of(stage_tiles, store);
    }
}

// Stores two neighbours of a row of the tile, as far as they exist.
__device__ __forceinline__ void store2(elem* __restrict__ result, const Epilogue& epilogue, const TileOfBlock& tile,
                                          unsigned tile_row, unsigned tile_column, float x, float y) {
    const unsigned row = tile.row + tile_row, col = tile.column + tile_column;
    if (row >= M || col >= N) return;
    if constexpr (LAST) {
        const unsigned channel = tile.group * TO_C + col, at = row * (GROUPS * TO_C) + channel;
        if constexpr (N % 2 == 0) {
            *reinterpret_cast<unsigned*>(result + at) = pack(epilogue(channel, x), epilogue(channel + 1, y));
        } else {
            result[at] = to_elem(epilogue(channel, x));
            if (col + 1 < N) result[at + 1] = to_elem(epilogue(channel + 1, y));
        }
    } else {
        const unsigned channel = tile.group * TO_C + row;
        elem* const at = result + result_at(tile.group, row, col / TO, col % TO);
        if constexpr (TO % 2 == 0) {
            *reinterpret_cast<unsigned*>(at) = pack(epilogue(channel, x), epilogue(channel, y));
        } else {
            *at = to_elem(epilogue(channel, x));
            if (col + 1 < N) {
                result[result_at(tile.group, row, (col + 1) / TO, (col + 1) % TO)] = to_elem(epilogue(channel, y));
            }
        }
    }
}

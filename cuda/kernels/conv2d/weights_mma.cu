// Gradient of the filters on tensor cores, with warp-wide products of 16-bit floats. A row is an output channel, a column a
// weight of it, and a term an image and a position. Blocks take parts of K terms, and leave their sums to be added. The
// definition is in core/workloads/src/ops/conv2d/backward.rs.
//
// With channels last, channels of gradient and pixels are neighbours for each term. Otherwise terms are neighbours, and both
// tiles have them along rows.

#include "conv2d/common.cuh"
#include "lib/product_mma.cuh"

constexpr unsigned TERMS = IMAGES * TO;
static_assert(!BACK && M == TO_C && N == FROM_C * TAPS && K % BLOCK_K == 0, "a tile of weights, in whole steps");
static_assert(A_TRANSPOSED == LAST && B_TRANSPOSED != LAST, "as gradient and pixels lie");

// Channels last: BLOCK_K positions by BLOCK_MN weights. A thread copies pieces of eight weights, the same in every step.
struct PixelsAcross {
    static constexpr unsigned across = BLOCK_MN / 8, rows = THREADS / across;
    const elem* __restrict__ source;
    unsigned group, column, term, end;
    Walk<rows> walk;

    __device__ __forceinline__ PixelsAcross(const elem* from, unsigned group, unsigned first, unsigned begin, unsigned end)
        : source(from), group(group), column(first + threadIdx.x % across * 8), term(begin + threadIdx.x / across),
          end(end), walk(term) {}

    __device__ __forceinline__ void stage(elem* tile) {
        elem* const to = tile + threadIdx.x / across * StagedB::row + threadIdx.x % across * 8;
#pragma unroll
        for (unsigned i = 0; i < BLOCK_K; i += rows) {
            const Known known = walk.known();
            if constexpr (FROM_C % 8 == 0) {
                const Under found = under(known, tap_at(column / FROM_C));
                const bool inside = term < end && column < N && found.there;
                const unsigned at = source_at(group, column % FROM_C, known.image, found.position);
                copy_async(to + i * StagedB::row, source + (inside ? at : 0), inside);
            } else {
#pragma unroll
                for (unsigned e = 0; e < 8; e++) {
                    const Under found = under(known, tap_at((column + e) / FROM_C));
                    elem x{0};
                    if (term < end && column + e < N && found.there) {
                        x = source[source_at(group, (column + e) % FROM_C, known.image, found.position)];
                    }
                    to[i * StagedB::row + e] = x;
                }
            }
            term += rows;
            walk.advance();
        }
    }
};

// Otherwise: BLOCK_MN weights by BLOCK_K positions, shared by the threads of a warp. A table has the offset of each weight from a
// position's first tap, in depth, rows and columns, and in memory.
struct PixelsDown {
    static_assert(THREADS == BLOCK_MN && BLOCK_K == 32, "an entry for each thread, a position for each lane");
    const elem* __restrict__ source;
    const uint4* over;
    unsigned term, end;
    Walk<BLOCK_K> walk;

    __device__ __forceinline__ PixelsDown(const elem* from, uint4* table, unsigned group, unsigned first, unsigned begin,
                                          unsigned end)
        : source(from), over(table), term(begin + threadIdx.x % 32), end(end), walk(term) {
        const unsigned column = first + threadIdx.x;
        const uint3 tap = tap_at(column % TAPS);
        const uint3 by = make_uint3(tap.x * DILATION, tap.y * DILATION, tap.z * DILATION);
        const unsigned at = (group * FROM_C + column / TAPS) * FROM + (by.x * FROM_H + by.y) * FROM_W + by.z;
        // Past the last weight, every position is outside.
        table[threadIdx.x] = make_uint4(by.x, by.y, column < N ? by.z : 1u << 31, at);
        __syncthreads();
    }

    __device__ __forceinline__ void stage(elem* tile) {
        const Known known = walk.known();
        const unsigned begin =
            known.image * (GROUPS * FROM_C * FROM) + (known.at.x * FROM_H + known.at.y) * FROM_W + known.at.z;
        elem* const to = tile + threadIdx.x / 32 * StagedB::row + threadIdx.x % 32;
#pragma unroll
        for (unsigned i = 0; i < BLOCK_MN; i += THREADS / 32) {
            const uint4 by = over[threadIdx.x / 32 + i];
            const bool there =
                known.at.x + by.x < FROM_D && known.at.y + by.y < FROM_H && known.at.z + by.z < FROM_W;
            elem x{0};
            if (term < end && there) x = source[begin + by.w];
            to[i * StagedB::row] = x;
        }
        term += BLOCK_K;
        walk.advance();
    }
};

// With it: BLOCK_MN channels of the gradient by BLOCK_K positions, in pieces of eight positions.
__device__ __forceinline__ void stage_gradient(elem* tile, const elem* __restrict__ gradient, unsigned group, unsigned first,
                                               unsigned term, unsigned end) {
    constexpr unsigned across = BLOCK_K / 8, rows = THREADS / across;
    const unsigned row = first + threadIdx.x / across;
    elem* const to = tile + threadIdx.x / across * StagedA::row + threadIdx.x % across * 8;
    term += threadIdx.x % across * 8;
    const unsigned at = result_at(group, row, term / TO, term % TO);
#pragma unroll
    for (unsigned i = 0; i < BLOCK_MN; i += rows) {
        if constexpr (TO % 8 == 0) {
            const bool inside = term < end && row + i < M;
            copy_async(to + i * StagedA::row, gradient + (inside ? at + i * TO : 0), inside);
        } else {
#pragma unroll
            for (unsigned e = 0; e < 8; e++) {
                elem x{0};
                if (term + e < end && row + i < M) {
                    x = gradient[result_at(group, row + i, (term + e) / TO, (term + e) % TO)];
                }
                to[i * StagedA::row + e] = x;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_weights_mma(const elem* __restrict__ source, const elem* __restrict__ gradient, float* __restrict__ parts) {
    // Parts and groups are counted together: groups are contiguous in each part.
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN, down = (M + BLOCK_MN - 1) / BLOCK_MN;
    const u64 index = flat_workgroup(), tiles = (u64)across * down, counted = index / tiles;
    if (counted >= BATCH) return;
    const uint2 tile = tile_at(index % tiles, across, down);
    const unsigned first_row = tile.y * BLOCK_MN, first_col = tile.x * BLOCK_MN, group = (unsigned)(counted % GROUPS);
    const u64 from = counted / GROUPS * K, to = from + K;
    const unsigned begin = (unsigned)min(from, (u64)TERMS), end = (unsigned)min(to, (u64)TERMS);
    parts += counted * ((u64)M * N);

    const auto store = [&](unsigned tile_row, unsigned tile_col, float x, float y) {
        const unsigned row = first_row + tile_row, col = first_col + tile_col;
        if (row >= M || col >= N) return;
        float* const at = parts + (u64)row * N + col;
        if constexpr (N % 2 == 0) {
            *reinterpret_cast<float2*>(at) = make_float2(x, y);
        } else {
            at[0] = x;
            if (col + 1 < N) at[1] = y;
        }
    };
    if constexpr (LAST) {
        PixelsAcross pixels(source, group, first_col, begin, end);
        const auto stage_tiles = [&](elem* a_tile, elem* b_tile, unsigned d) {
            stage_rows<StagedA, TO_C, GROUPS * TO_C>(a_tile, gradient + group * TO_C, begin + d, first_row, end);
            pixels.stage(b_tile);
        };
        product_mma_of(stage_tiles, store);
    } else {
        __shared__ uint4 table[BLOCK_MN];
        PixelsDown pixels(source, table, group, first_col, begin, end);
        const auto stage_tiles = [&](elem* a_tile, elem* b_tile, unsigned d) {
            stage_gradient(a_tile, gradient, group, first_row, begin + d, end);
            pixels.stage(b_tile);
        };
        product_mma_of(stage_tiles, store);
    }
}

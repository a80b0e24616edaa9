// Gradient of the filters: implicit GEMM of the result's gradient and gathered pixels. A row is an output channel, a column a
// weight of it, and a term an image and a position. Blocks take parts of the terms, and leave their sums to be added. The
// definition is in core/workloads/src/ops/conv2d/backward.rs.

#include "conv2d/common.cuh"
#include "conv2d/tile.cuh"
#include "lib/launch.cuh"

constexpr unsigned COLUMNS = FROM_C * TAPS, TERMS = IMAGES * TO;
// Neighbouring weights belong to neighbouring channels, four per vector.
constexpr bool VECTORS = LAST && FROM_C % 4 == 0;

struct Weights {
    const elem* __restrict__ source;
    const elem* __restrict__ gradient;
    float* __restrict__ parts;
    unsigned group, first_row, first_column;
    // The thread stages the same four weights in every step: their channels and taps.
    unsigned channel[4];
    uint3 tap[4];

    __device__ __forceinline__ unsigned column_of(unsigned slot, unsigned i) const {
        return first_column + (VECTORS ? slot * 4 + i : slot + i * N_VEC4);
    }

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned column = column_of(threadIdx.x % N_VEC4, i);
            // Channels past the last weight do not exist.
            channel[i] = column >= COLUMNS ? FROM_C : LAST ? column % FROM_C : column / TAPS;
            tap[i] = tap_at(LAST ? column / FROM_C : column % TAPS);
        }
    }

    __device__ __forceinline__ void stage_right(float4* tile, unsigned depth, unsigned to) const {
#pragma unroll
        for (unsigned e = threadIdx.x; e < N_VEC4 * BLOCK_K; e += 256) {
            const unsigned term = depth + e / N_VEC4;
            const Known known = known_of(term);
            float4 pixels = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if constexpr (VECTORS) {
                const Under found = under(known, tap[0]);
                if (term < to && channel[0] < FROM_C && found.there) {
                    pixels = load_vec4(source + source_at(group, channel[0], known.image, found.position));
                }
            } else {
                float x[4];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const Under found = under(known, tap[i]);
                    x[i] = 0.0f;
                    if (term < to && channel[i] < FROM_C && found.there) {
                        x[i] = load(source[source_at(group, channel[i], known.image, found.position)]);
                    }
                }
                pixels = make_float4(x[0], x[1], x[2], x[3]);
            }
            tile[e] = pixels;
        }
    }

    __device__ __forceinline__ void stage_left(float4* tile, unsigned depth, unsigned to) const {
        if constexpr (!LAST && TO % 4 == 0) {
            // Terms of a row are contiguous within an image.
#pragma unroll
            for (unsigned e = threadIdx.x; e < M_VEC4 * K_VEC4; e += 256) {
                const unsigned slot = e / K_VEC4, d = e % K_VEC4 * 4, term = depth + d;
                float4 x[4];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const unsigned row = first_row + slot * 4 + i;
                    x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (term < to && row < TO_C) x[i] = load_vec4(gradient + result_at(group, row, term / TO, term % TO));
                }
                store_transposed(tile + d * M_VEC4 + slot, M_VEC4, x);
            }
        } else {
#pragma unroll
            for (unsigned e = threadIdx.x; e < M_VEC4 * BLOCK_K; e += 256) {
                const unsigned term = depth + e / M_VEC4, row = first_row + e % M_VEC4 * 4;
                float4 rows = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if constexpr (LAST && TO_C % 4 == 0) {
                    if (term < to && row < TO_C) {
                        rows = load_vec4(gradient + result_at(group, row, term / TO, term % TO));
                    }
                } else {
                    float x[4];
#pragma unroll
                    for (unsigned i = 0; i < 4; i++) {
                        x[i] = 0.0f;
                        if (term < to && row + i < TO_C) {
                            x[i] = load(gradient[result_at(group, row + i, term / TO, term % TO)]);
                        }
                    }
                    rows = make_float4(x[0], x[1], x[2], x[3]);
                }
                tile[e] = rows;
            }
        }
    }

    __device__ __forceinline__ void store_column(unsigned tile_row, unsigned slot, unsigned i, const float4& sums) const {
        const unsigned row = first_row + tile_row, column = column_of(slot, i);
        if (column >= COLUMNS) return;
        const float sum[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            if (row + e < TO_C) parts[(u64)(row + e) * COLUMNS + column] = sum[e];
        }
    }
};

extern "C" __global__ void __launch_bounds__(256, 2)
    conv2d_weights(const elem* __restrict__ source, const elem* __restrict__ gradient, float* __restrict__ parts) {
    // Blocks that run together share positions. Parts and groups are counted together: groups are contiguous in each part.
    constexpr unsigned down = (TO_C + BLOCK_M - 1) / BLOCK_M, across = (COLUMNS + BLOCK_N - 1) / BLOCK_N;
    const u64 index = flat_workgroup(), counted = index / ((u64)down * across);
    if (counted >= (u64)GROUPS * PARTS) return;
    Weights weights{source,
                    gradient,
                    parts + counted * (TO_C * COLUMNS),
                    (unsigned)(counted % GROUPS),
                    (unsigned)(index % down) * BLOCK_M,
                    (unsigned)(index / down % across) * BLOCK_N};
    weights.begin();
    const u64 from = counted / GROUPS * PART, to = from + PART;
    tile_product<false>(weights, (unsigned)min(from, (u64)TERMS), (unsigned)min(to, (u64)TERMS));
}

// Operands of an implicit GEMM of filters and pixels. A row is a channel of the result, a column a position of it, and a term a
// channel of the source at a tap. The matrix of pixels is never stored: pixels are gathered as they are staged.

#include "conv2d/common.cuh"
#include "conv2d/tile.cuh"
#include "lib/launch.cuh"

constexpr unsigned TERMS = FROM_C * TAPS, COLUMNS = IMAGES * TO;
// Neighbouring terms are neighbouring channels of the source, four per vector.
constexpr bool VECTORS = LAST && FROM_C % 4 == 0;

struct Pixels {
    const elem* __restrict__ source;
    const elem* __restrict__ w;
    elem* __restrict__ result;
    Epilogue epilogue;
    unsigned group, first_row, first_column;
    // The thread stages terms of the same four positions in every step.
    Known known[4];

    __device__ __forceinline__ unsigned column_of(unsigned slot, unsigned i) const {
        return first_column + slot + i * N_VEC4;
    }

    __device__ __forceinline__ void begin() {
        const unsigned slot = VECTORS ? threadIdx.x / K_VEC4 : threadIdx.x % N_VEC4;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) known[i] = known_of(column_of(slot, i));
    }

    __device__ __forceinline__ void stage_right(float4* tile, unsigned depth, unsigned to) const {
        if constexpr (VECTORS) {
            if (threadIdx.x >= N_VEC4 * K_VEC4) return;
            const unsigned slot = threadIdx.x / K_VEC4, d = threadIdx.x % K_VEC4 * 4, term = depth + d;
            const uint3 tap = tap_at(term / FROM_C);
            float4 x[4];
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const Under found = under(known[i], tap);
                x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (term < to && found.there) {
                    x[i] = load_vec4(source + source_at(group, term % FROM_C, known[i].image, found.position));
                }
            }
            store_transposed(tile + d * N_VEC4 + slot, N_VEC4, x);
        } else {
#pragma unroll
            for (unsigned e = threadIdx.x; e < N_VEC4 * BLOCK_K; e += 256) {
                const unsigned term = depth + e / N_VEC4;
                const unsigned channel = LAST ? term % FROM_C : term / TAPS;
                const uint3 tap = tap_at(LAST ? term / FROM_C : term % TAPS);
                float x[4];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const Under found = under(known[i], tap);
                    x[i] = 0.0f;
                    if (term < to && found.there) {
                        x[i] = load(source[source_at(group, channel, known[i].image, found.position)]);
                    }
                }
                tile[e] = make_float4(x[0], x[1], x[2], x[3]);
            }
        }
    }

    __device__ __forceinline__ void stage_left(float4* tile, unsigned depth, unsigned to) const {
        if constexpr (!BACK && TERMS % 4 == 0) {
            // Terms of a row are contiguous.
#pragma unroll
            for (unsigned e = threadIdx.x; e < M_VEC4 * K_VEC4; e += 256) {
                const unsigned slot = e / K_VEC4, d = e % K_VEC4 * 4, term = depth + d;
                float4 x[4];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const unsigned row = first_row + slot * 4 + i;
                    x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (term < to && row < TO_C) x[i] = load_vec4(w + (group * TO_C + row) * TERMS + term);
                }
                store_transposed(tile + d * M_VEC4 + slot, M_VEC4, x);
            }
        } else if constexpr (BACK && LAST && TO_C % 4 == 0) {
            // Rows of a term are contiguous.
#pragma unroll
            for (unsigned e = threadIdx.x; e < M_VEC4 * BLOCK_K; e += 256) {
                const unsigned term = depth + e / M_VEC4, row = first_row + e % M_VEC4 * 4;
                float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (term < to && row < TO_C) x = load_vec4(w + weight_at(group, row, term % FROM_C, term / FROM_C));
                tile[e] = x;
            }
        } else {
#pragma unroll
            for (unsigned e = threadIdx.x; e < M_VEC4 * BLOCK_K; e += 256) {
                const unsigned term = depth + e % BLOCK_K, row = first_row + e / BLOCK_K * 4;
                const unsigned from = LAST ? term % FROM_C : term / TAPS, tap = LAST ? term / FROM_C : term % TAPS;
                float x[4];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    x[i] = 0.0f;
                    if (term < to && row + i < TO_C) x[i] = load(w[weight_at(group, row + i, from, tap)]);
                }
                tile[e % BLOCK_K * M_VEC4 + e / BLOCK_K] = make_float4(x[0], x[1], x[2], x[3]);
            }
        }
    }

    __device__ __forceinline__ void store_column(unsigned tile_row, unsigned slot, unsigned i, const float4& sums) const {
        const unsigned row = first_row + tile_row, column = column_of(slot, i);
        if (column >= COLUMNS || row >= TO_C) return;
        const unsigned at = result_at(group, row, column / TO, column % TO), channel = group * TO_C + row;
        const float sum[4] = {sums.x, sums.y, sums.z, sums.w};
        if constexpr (LAST && TO_C % 4 == 0) {
            elem4 vec4;
#pragma unroll
            for (unsigned e = 0; e < 4; e++) vec4.at[e] = to_elem(epilogue(channel + e, sum[e]));
            *reinterpret_cast<elem4*>(result + at) = vec4;
        } else {
            constexpr unsigned apart = LAST ? 1 : TO;
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                if (row + e < TO_C) result[at + e * apart] = to_elem(epilogue(channel + e, sum[e]));
            }
        }
    }
};

// Group, first row and first column of this block's tile. Blocks that run together share positions, then filters.
__device__ __forceinline__ uint3 tile_of_block() {
    constexpr unsigned down = (TO_C + BLOCK_M - 1) / BLOCK_M, across = (COLUMNS + BLOCK_N - 1) / BLOCK_N;
    const u64 index = flat_workgroup();
    return make_uint3((unsigned)(index / ((u64)down * across)), (unsigned)(index % down) * BLOCK_M,
                      (unsigned)(index / down % across) * BLOCK_N);
}

// Separable convolution in one stage: GEMM of the pointwise weights and depthwise results, which are computed as they are staged
// and never stored. A row is an output channel, a column a position of the result, and a term a channel of the image. Element
// indices fit into 32 bits. The definition is in core/workloads/src/ops/separable_conv3d.

#include "conv2d/tile.cuh"
#include "lib/launch.cuh"

constexpr unsigned TAPS = KD * KH * KW, TO = OD * OH * OW, COLUMNS = N * TO;
// Neighbouring terms are neighbouring channels of the image, four per vector.
constexpr bool VECTORS = CHANNELS_LAST && C % 4 == 0;
// Taps of a row are loaded together, unless there are very many.
constexpr unsigned TOGETHER = KW <= 8 ? KW : 1;

// Position of the result: its image, and depth, row and column under the first tap. Coordinates before the image wrap around and
// exceed its extent.
struct Known {
    unsigned image, z, y, x;
};

// `lanes` neighbouring elements, widened; more than one are aligned.
template <unsigned lanes>
__device__ __forceinline__ void load_lanes(float (&to)[lanes], const elem* from) {
    if constexpr (lanes == 4) {
        const elem4 vec4 = *reinterpret_cast<const elem4*>(from);
#pragma unroll
        for (unsigned i = 0; i < lanes; i++) to[i] = load(vec4.at[i]);
    } else {
        static_assert(lanes == 1, "a vector or an element");
        to[0] = load(*from);
    }
}

struct Separable {
    const elem* __restrict__ x;
    const elem* __restrict__ w;
    const elem* __restrict__ pointwise;
    elem* __restrict__ out;
    const elem* bias;
    unsigned first_row, first_column;
    // The thread stages terms of the same four positions in every step.
    Known known[4];

    __device__ __forceinline__ unsigned column_of(unsigned slot, unsigned i) const {
        return first_column + slot + i * N_VEC4;
    }

    __device__ __forceinline__ void begin() {
        const unsigned slot = VECTORS ? threadIdx.x / K_VEC4 : threadIdx.x % N_VEC4;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned column = column_of(slot, i), position = column % TO;
            known[i].image = column / TO;
            known[i].z = position / (OH * OW) * SD - PD;
            known[i].y = position / OW % OH * SH - PH;
            known[i].x = position % OW * SW - PW;
        }
    }

    // Depthwise results of `lanes` neighbouring channels, from `c` on, at the four positions.
    template <unsigned lanes>
    __device__ __forceinline__ void depthwise(float (&sums)[4][lanes], unsigned c) const {
        for (unsigned i = 0; i < KD; i++) {
            for (unsigned j = 0; j < KH; j++) {
                unsigned start[4];
                bool there[4];
#pragma unroll
                for (unsigned q = 0; q < 4; q++) {
                    const unsigned z = known[q].z + i * LD, y = known[q].y + j * LH;
                    const unsigned plane = CHANNELS_LAST ? known[q].image : known[q].image * C + c;
                    there[q] = known[q].image < N && z < ID && y < IH;
                    start[q] = ((plane * ID + z) * IH + y) * IW;
                }
#pragma unroll TOGETHER
                for (unsigned k = 0; k < KW; k++) {
                    const unsigned tap = (i * KH + j) * KW + k;
                    float weights[lanes];
                    load_lanes(weights, w + (CHANNELS_LAST ? tap * C + c : c * TAPS + tap));
#pragma unroll
                    for (unsigned q = 0; q < 4; q++) {
                        const unsigned at = known[q].x + k * LW;
                        float pixels[lanes] = {};
                        if (there[q] && at < IW) {
                            load_lanes(pixels, x + (CHANNELS_LAST ? (start[q] + at) * C + c : start[q] + at));
                        }
#pragma unroll
                        for (unsigned lane = 0; lane < lanes; lane++) {
                            sums[q][lane] = fmaf(pixels[lane], weights[lane], sums[q][lane]);
                        }
                    }
                }
            }
        }
    }

    __device__ __forceinline__ void stage_right(float4* tile, unsigned depth, unsigned to) const {
        if constexpr (VECTORS) {
            if (threadIdx.x >= N_VEC4 * K_VEC4) return;
            const unsigned slot = threadIdx.x / K_VEC4, d = threadIdx.x % K_VEC4 * 4;
            float sums[4][4] = {};
            if (depth + d < to) depthwise(sums, depth + d);
            float4 results[4];
#pragma unroll
            for (unsigned q = 0; q < 4; q++) results[q] = make_float4(sums[q][0], sums[q][1], sums[q][2], sums[q][3]);
            store_transposed(tile + d * N_VEC4 + slot, N_VEC4, results);
        } else {
            // Not unrolled: registers also hold the accumulators of the GEMM.
#pragma unroll 1
            for (unsigned e = threadIdx.x; e < N_VEC4 * BLOCK_K; e += 256) {
                const unsigned c = depth + e / N_VEC4;
                float sums[4][1] = {};
                if (c < to) depthwise(sums, c);
                tile[e] = make_float4(sums[0][0], sums[1][0], sums[2][0], sums[3][0]);
            }
        }
    }

    __device__ __forceinline__ void stage_left(float4* tile, unsigned depth, unsigned to) const {
        if constexpr (C % 4 == 0) {
#pragma unroll
            for (unsigned e = threadIdx.x; e < M_VEC4 * K_VEC4; e += 256) {
                const unsigned slot = e / K_VEC4, d = e % K_VEC4 * 4, c = depth + d;
                float4 rows[4];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const unsigned row = first_row + slot * 4 + i;
                    rows[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (c < to && row < M) rows[i] = load_vec4(pointwise + row * C + c);
                }
                store_transposed(tile + d * M_VEC4 + slot, M_VEC4, rows);
            }
        } else {
#pragma unroll
            for (unsigned e = threadIdx.x; e < M_VEC4 * BLOCK_K; e += 256) {
                const unsigned c = depth + e % BLOCK_K, row = first_row + e / BLOCK_K * 4;
                float weights[4];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    weights[i] = 0.0f;
                    if (c < to && row + i < M) weights[i] = load(pointwise[(row + i) * C + c]);
                }
                tile[e % BLOCK_K * M_VEC4 + e / BLOCK_K] = make_float4(weights[0], weights[1], weights[2], weights[3]);
            }
        }
    }

    __device__ __forceinline__ float epilogue(unsigned row, float sum) const {
        if constexpr (BIAS) sum += load(bias[row]);
        if constexpr (RELU) sum = relu(sum);
        return sum;
    }

    __device__ __forceinline__ void store_column(unsigned tile_row, unsigned slot, unsigned i, const float4& sums) const {
        const unsigned row = first_row + tile_row, column = column_of(slot, i);
        if (column >= COLUMNS || row >= M) return;
        const unsigned at = CHANNELS_LAST ? column * M + row : (column / TO * M + row) * TO + column % TO;
        const float sum[4] = {sums.x, sums.y, sums.z, sums.w};
        if constexpr (CHANNELS_LAST && M % 4 == 0) {
            elem4 vec4;
#pragma unroll
            for (unsigned e = 0; e < 4; e++) vec4.at[e] = to_elem(epilogue(row + e, sum[e]));
            *reinterpret_cast<elem4*>(out + at) = vec4;
        } else {
            constexpr unsigned apart = CHANNELS_LAST ? 1 : TO;
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                if (row + e < M) out[at + e * apart] = to_elem(epilogue(row + e, sum[e]));
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(256, 2)
    separable_conv3d_fused(const elem* __restrict__ x, const elem* __restrict__ w, const elem* __restrict__ pointwise,
                           elem* __restrict__ out
#if BIAS
    , const elem* __restrict__ bias
#endif
    ) {
#if !BIAS
    const elem* const bias = nullptr;
#endif
    // Blocks that run together share positions.
    constexpr unsigned down = (M + BLOCK_M - 1) / BLOCK_M, across = (COLUMNS + BLOCK_N - 1) / BLOCK_N;
    const u64 index = flat_workgroup();
    if (index >= (u64)down * across) return;
    Separable factors{x, w, pointwise, out, bias, (unsigned)(index % down) * BLOCK_M,
                      (unsigned)(index / down) * BLOCK_N};
    factors.begin();
    tile_product<CHANNELS_LAST>(factors, 0, C);
}

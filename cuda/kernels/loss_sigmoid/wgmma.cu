// Loss and its slopes by warpgroups, from tensor maps. The definition is in core/workloads/src/ops/loss_sigmoid.
//
// loss_sigmoid_wgmma         each block stores its part of the loss: no logit is stored
// loss_sigmoid_wgmma_slopes  stores slopes times the temperature as elements, and a block's parts of two sums: see `scalars`

#include "lib/exp2.cuh"
#include "lib/named.cuh"
#include "lib/reduce.cuh"
#include "lib/row_products.cuh"
#include "lib/store_rows.cuh"

constexpr unsigned SUMS = BLOCK_N / 2;

// Logits in units of ln 2: `fmaf(scale, dot, level)`.
struct Logits {
    float scale, level;

    __device__ __forceinline__ Logits(const float* temperature, const float* bias)
        : scale(LOG2_E * temperature[0]), level(LOG2_E * bias[0]) {}
};

// A warp's rows in a tile. On the diagonal pairs have another sign, and some may be outside.
struct Corner {
    unsigned row, column;

    __device__ __forceinline__ bool special() const {
        const bool inside = row + 16 <= A_ROWS && column + BLOCK_N <= B_ROWS;
        return !inside || row + 16 > column && row < column + BLOCK_N;
    }

    __device__ __forceinline__ uint2 of(unsigned i) const {
        return make_uint2(row + threadIdx.x % 32 / 4 + i / 2 % 2 * 8, column + wgmma_column(i));
    }

    __device__ __forceinline__ bool diagonal(unsigned i) const { return of(i).x == of(i).y; }

    // Minus z times the logit. A pair outside has no loss and no slope there.
    template <bool special>
    __device__ __forceinline__ float against(unsigned i, const Logits& logits, float dot) const {
        const float v = fmaf(logits.scale, dot, logits.level);
        if constexpr (!special) return v;
        if (of(i).x >= A_ROWS || of(i).y >= B_ROWS) return negative_infinity();
        return diagonal(i) ? -v : v;
    }
};

// Loss of a thread's pairs in a tile.
//
// A term is ln(1 + exp(v)) = max(v, 0) + ln(1 + exp(-|v|)). Terms share the logarithm of a product. The product minus one is kept,
// and small exponentials are not rounded away: (1 + p) (1 + e) - 1 = p + (e p + e).
template <bool special>
__device__ __forceinline__ float terms(const float (&dots)[SUMS], const Logits& logits, const Corner& corner) {
    constexpr unsigned chains = 4;
    float linear[chains] = {}, product[chains] = {};
    static_assert(SUMS / chains < 128, "each factor is two at most");
#pragma unroll
    for (unsigned i = 0; i < SUMS; i++) {
        const float v = corner.against<special>(i, logits, dots[i]);
        linear[i % chains] += fmaxf(v, 0.0f);
        const float e = exp2_fast(-fabsf(v));
        product[i % chains] += fmaf(e, product[i % chains], e);
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < chains; i++) sum += fmaf(LN_2, linear[i], log1pf(product[i]));
    return sum;
}

// Sum over the consumers, for the first thread. `partial` has one float per warp, and the barrier orders its use.
__device__ __forceinline__ float consumers_sum(float x, float* partial) {
    x = lanes_sum(x, 32);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    named_sync<CONSUMERS * 128>(1);
    float total = 0.0f;
    for (unsigned warp = 0; warp < CONSUMERS * 4; warp++) total += partial[warp];
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    loss_sigmoid_wgmma(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y,
                       const float* __restrict__ temperature, const float* __restrict__ bias, float* __restrict__ parts) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared, 0);
    row_products(x, y, ring, SameColumns{}, [&](unsigned rank, unsigned warp) {
        const Logits logits(temperature, bias);
        float sum = 0.0f;
        consume<float>(ring, rank, warp, [&](const float(&dots)[SUMS], unsigned row, unsigned column) {
            const Corner corner{row, column};
            sum += corner.special() ? terms<true>(dots, logits, corner) : terms<false>(dots, logits, corner);
        });
        sum = consumers_sum(sum, reinterpret_cast<float*>(ring.empty + STAGES));
        if (threadIdx.x == 0) parts[blockIdx.x] = sum;
    });
}

// Slopes of a thread's pairs, and sums of these without `factor`: alone, and times the dot products.
struct Slopes {
    const Logits& logits;
    const Corner& corner;
    float factor, level = 0.0f, along = 0.0f;

    template <bool special>
    __device__ __forceinline__ float of(unsigned i, float dot) {
        const float v = corner.against<special>(i, logits, dot), e = exp2_fast(-fabsf(v));
        float rise = __fdividef(v >= 0.0f ? 1.0f : e, 1.0f + e);
        if (special && corner.diagonal(i)) rise = -rise;
        level += rise;
        along = fmaf(rise, dot, along);
        return factor * rise;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    loss_sigmoid_wgmma_slopes(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y,
                              const float* __restrict__ temperature, const float* __restrict__ bias,
                              float* __restrict__ parts, const float* __restrict__ dloss,
                              const __grid_constant__ CUtensorMap scaled_slopes) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared, CONSUMERS * 4 * pieces_bytes);
    row_products(x, y, ring, SameColumns{}, [&](unsigned rank, unsigned warp) {
        unsigned char* const pieces = shared + STAGES * stage_bytes + warp * pieces_bytes;
        const Logits logits(temperature, bias);
        const float of_mean = dloss[0] * SHARE;
        float level = 0.0f, along = 0.0f;
        consume<float>(ring, rank, warp, [&](const float(&dots)[SUMS], unsigned row, unsigned column) {
            const Corner corner{row, column};
            Slopes slopes{logits, corner, temperature[0] * of_mean};
            if (corner.special()) {
                store_rows(scaled_slopes, pieces, row, column, [&](unsigned i) {
                    return make_float2(slopes.of<true>(i, dots[i]), slopes.of<true>(i + 1, dots[i + 1]));
                });
            } else {
                store_rows(scaled_slopes, pieces, row, column, [&](unsigned i) {
                    return make_float2(slopes.of<false>(i, dots[i]), slopes.of<false>(i + 1, dots[i + 1]));
                });
            }
            level += slopes.level;
            along += slopes.along;
        });
        float* const partial = reinterpret_cast<float*>(ring.empty + STAGES);
        level = consumers_sum(level, partial);
        along = consumers_sum(along, partial + CONSUMERS * 4);
        if (threadIdx.x == 0) {
            parts[2 * (u64)blockIdx.x] = along * of_mean;
            parts[2 * (u64)blockIdx.x + 1] = level * of_mean;
        }
        if (threadIdx.x % 32 == 0) tma_wait_read<0>();
    });
}

// fp8 GEMM by warpgroups, from tensor maps. The definition is in core/workloads/src/ops/matmul_f8.
//
// Tensor cores have about 14 bits of a sum. After each step, which is 128 of K, a consumer adds its sums to totals in f32, by block
// with the scales of the step. The tensor cores multiply for the other consumer meanwhile. A tile of 192 columns has 192 numbers in a
// thread's registers. One of 256 columns has 128 totals, and sums of 128 columns at a time: its tile of A is read twice.

#include "lib/row_products.cuh"
#include "lib/store_rows.cuh"
#include "lib/wgmma_f8.cuh"
#include "matmul_f8/codes.cuh"

static_assert(STEP_BYTES == SPAN && STEPS == PARTS && BLOCK_N <= 2 * SPAN, "a step has one scale, a tile columns of two blocks");

// Parts of the columns of a tile, one after the other, and sums of each.
constexpr unsigned HALVES = BLOCK_N > 192 ? 2 : 1, SUMS = BLOCK_N / 2 / HALVES;

// Scales of a step: rows of the thread, times columns up to 63, up to 127, and from 128 on of the tile.
struct Scales {
    float of[2][3];

    // A tile begins at a multiple of 64 columns, or of 256. Rows and columns outside have the scales of the last ones.
    __device__ __forceinline__ Scales(const float* __restrict__ a_scale, const float* __restrict__ b_scale, unsigned row,
                                      unsigned column, unsigned step) {
        const float first = scale_of_b(b_scale, column, step);
        const float second = scale_of_b(b_scale, min(column + SPAN, N - 1), step);
        const bool early = BLOCK_N > 64 && column % SPAN != 0;
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            const float left = scale_of_a(a_scale, min(row + 8 * r, M - 1), step);
            of[r][0] = left * first;
            of[r][1] = left * (early ? second : first);
            of[r][2] = left * second;
        }
    }

    // Of total `i`.
    __device__ __forceinline__ float at(unsigned i) const { return of[i / 2 % 2][min(i / 32, 2)]; }
};

// Consumer of the ring, as `consume` of lib/row_products.cuh: totals of 64 rows of each tile.
template <typename Use>
__device__ __forceinline__ void consume_by_step(const Ring& ring, unsigned rank, unsigned warp, const float* __restrict__ a_scale,
                                                const float* __restrict__ b_scale, const Use& use) {
    const u64 a_first = wgmma_along_k(ring.a_tile(0) + warp / 4 * 64 * STEP_BYTES), b_first = wgmma_along_k(ring.b_tile(0));
    constexpr unsigned next_stage = stage_bytes >> 4, next_half = BLOCK_N / HALVES * STEP_BYTES >> 4;
    Position at;
    each_tile(rank, [&](unsigned a_row, unsigned b_row) {
        const unsigned row = a_row + warp * 16;
        float sums[SUMS], totals[BLOCK_N / 2] = {};
#pragma unroll 1
        for (unsigned step = 0; step < STEPS; step++) {
            mbarrier_wait(&ring.full[at.stage], at.parity);
            const u64 a = a_first + at.stage * next_stage, b = b_first + at.stage * next_stage;
#if BY_BLOCK
            // Loads overlap with the products.
            const Scales scales(a_scale, b_scale, row + threadIdx.x % 32 / 4, b_row, step);
#endif
#pragma unroll
            for (unsigned half = 0; half < HALVES; half++) {
                wgmma_fence();
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    wgmma_f8(sums, a + i * WGMMA_NEXT_ALONG_K, b + half * next_half + i * WGMMA_NEXT_ALONG_K, i > 0);
                }
                wgmma_commit();
                wgmma_wait<0>(sums);
                if (half + 1 == HALVES) ring.release(at.stage);
#pragma unroll
                for (unsigned i = 0; i < SUMS; i++) {
                    float& total = totals[half * SUMS + i];
#if BY_BLOCK
                    total = fmaf(scales.at(half * SUMS + i), sums[i], total);
#else
                    total += sums[i];
#endif
                }
            }
            at.next();
        }
        use(totals, row, b_row);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_f8_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                    const float* __restrict__ a_scale, const float* __restrict__ b_scale,
                    const __grid_constant__ CUtensorMap c) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared, CONSUMERS * 4 * pieces_bytes);
    row_products(a, b, ring, SameColumns{}, [&](unsigned rank, unsigned warp) {
        unsigned char* const pieces = shared + STAGES * stage_bytes + warp * pieces_bytes;
        consume_by_step(ring, rank, warp, a_scale, b_scale, [&](const float(&totals)[BLOCK_N / 2], unsigned row, unsigned column) {
#if BY_BLOCK
            store_rows(c, pieces, row, column, [&](unsigned i) { return make_float2(totals[i], totals[i + 1]); });
#else
            const unsigned first = row + threadIdx.x % 32 / 4;
            const float left[2] = {scale_of_a(a_scale, min(first, M - 1), 0), scale_of_a(a_scale, min(first + 8, M - 1), 0)};
            store_rows(c, pieces, row, column, [&](unsigned i) {
                // Columns outside have the scales of the last one, and are not stored.
                const unsigned at = column + wgmma_column(i);
                const float x = scale_of_b(b_scale, min(at, N - 1), 0), y = scale_of_b(b_scale, min(at + 1, N - 1), 0);
                return make_float2(left[i / 2 % 2] * x * totals[i], left[i / 2 % 2] * y * totals[i + 1]);
            });
#endif
        });
        if (threadIdx.x % 32 == 0) tma_wait_read<0>();
    });
}

// int8 GEMM by warpgroups, from tensor maps. The definition is in core/workloads/src/ops/matmul_i8.rs.

#include "lib/row_products.cuh"
#include "lib/store_rows.cuh"
#include "matmul_i8/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_i8_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                    const float* __restrict__ a_scale, const float* __restrict__ b_scale,
                    const __grid_constant__ CUtensorMap c) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared, CONSUMERS * 4 * pieces_bytes);
    row_products(a, b, ring, SameColumns{}, [&](unsigned rank, unsigned warp) {
        unsigned char* const pieces = shared + STAGES * stage_bytes + warp * pieces_bytes;
        consume<int>(ring, rank, warp, [&](const int(&sums)[BLOCK_N / 2], unsigned row, unsigned column) {
            const unsigned first = row + threadIdx.x % 32 / 4;
            const float left[2] = {first < M ? a_scale[first] : 0.0f, first + 8 < M ? a_scale[first + 8] : 0.0f};
            store_rows(c, pieces, row, column, [&](unsigned i) {
                const unsigned at = column + wgmma_column(i);
                // N is even.
                const float2 right = at < N ? *reinterpret_cast<const float2*>(b_scale + at) : make_float2(0.0f, 0.0f);
                return make_float2(scaled(sums[i], left[i / 2 % 2], right.x), scaled(sums[i + 1], left[i / 2 % 2], right.y));
            });
        });
        if (threadIdx.x % 32 == 0) tma_wait_read<0>();
    });
}

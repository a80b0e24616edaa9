// GEMM of f32 by six products of bf16 pieces, by warpgroups. The definition is in core/workloads/src/ops/matmul.
//
// Each element is the sum of three pieces: see `pieces.cu`. Of the nine products of pieces, the three smallest are below the
// rounding of f32. The others are added in the order of their size, the smallest first.

#include "lib/row_products.cuh"
#include "lib/store_rows.cuh"

// Columns of a step. All steps of a product of pieces follow each other.
struct PieceColumns {
    __device__ __forceinline__ uint2 operator()(unsigned step) const {
        constexpr unsigned of_piece = STEPS / 6;
        // Pieces of A and B by product, two bits each.
        constexpr unsigned of_a = 0 | 2 << 2 | 1 << 4 | 0 << 6 | 1 << 8 | 0 << 10;
        constexpr unsigned of_b = 2 | 0 << 2 | 1 << 4 | 1 << 6 | 0 << 8 | 0 << 10;
        const unsigned product = step / of_piece, within = step % of_piece;
        const unsigned a = of_a >> 2 * product & 3, b = of_b >> 2 * product & 3;
        return make_uint2((a * of_piece + within) * STEP, (b * of_piece + within) * STEP);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_split_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       const __grid_constant__ CUtensorMap c) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared, CONSUMERS * 4 * pieces_bytes);
    row_products(a, b, ring, PieceColumns{}, [&](unsigned rank, unsigned warp) {
        unsigned char* const pieces = shared + STAGES * stage_bytes + warp * pieces_bytes;
        consume<float, TOGETHER>(ring, rank, warp, [&](const float(&sums)[BLOCK_N / 2], unsigned row, unsigned column) {
            store_rows(c, pieces, row, column, [&](unsigned i) { return make_float2(sums[i], sums[i + 1]); });
        });
        if (threadIdx.x % 32 == 0) tma_wait_read<0>();
    });
}

// Last stage of attention's backward pass by warpgroups. The definition is in core/workloads/src/ops/attention.
//
// attention_flash_wgmma_dq  a block scales and rounds the sums of a tile of dQ, and undoes their order

#include "attention/head_pieces.cuh"
#include "attention/query_tiles.cuh"
#include "lib/elem.cuh"

constexpr unsigned THREADS = 256, ROW = WIDTH + 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_flash_wgmma_dq(const float* __restrict__ sums, elem* __restrict__ dq) {
    __shared__ alignas(16) elem rows[QUERIES * ROW];
    const u64 tile = flat_workgroup();
    if (tile >= (u64)HEADS * QUERY_TILES) return;
    const float scale = 1.0f / sqrtf((float)D);
#pragma unroll
    for (unsigned i = threadIdx.x; i < OF_SUMS / 4; i += THREADS) {
        // A warp reads four registers of all lanes of a warp.
        const unsigned lane = i % 32, n = i / 32 % (PART / 4), warp = i / (8 * PART);
        const float4 x = *reinterpret_cast<const float4*>(sums + tile * OF_SUMS + order_of(warp, lane, n));
        elem* const to = rows + query_of(warp, lane) * ROW + column_of(warp, lane, n);
        *reinterpret_cast<unsigned*>(to) = pack(x.x * scale, x.y * scale);
        *reinterpret_cast<unsigned*>(to + 8 * ROW) = pack(x.z * scale, x.w * scale);
    }
    __syncthreads();
    const unsigned head = tile / QUERY_TILES, first = tile % QUERY_TILES * QUERIES;
#pragma unroll
    for (unsigned i = threadIdx.x; i < QUERIES * D / 8; i += THREADS) {
        const unsigned row = i / (D / 8), piece = i % (D / 8);
        if (first + row >= S) continue;
        reinterpret_cast<uint4*>(dq)[first_piece(head, first + row) + piece] =
            *reinterpret_cast<const uint4*>(rows + row * ROW + piece * 8);
    }
}

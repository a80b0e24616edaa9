// GEMM of attention's backward pass, in 16 x 16 tiles. The definition is in core/workloads/src/ops/attention.
//
// The queries of the GROUP heads with the same keys are contiguous: the keys see them as one head's.

#include "lib/launch.cuh"

constexpr unsigned QUERIES = GROUP * S;

// gradient[T x D] = left^T . right for left [QUERIES x T]: gradients of keys or values from all queries.
extern "C" __global__ void attention_gradient(float* __restrict__ left, const elem* __restrict__ right,
                                              elem* __restrict__ gradient) {
    // Both are indexed [query][...], as stored. Neighbouring threads read neighbours, and the product runs down the columns.
    __shared__ float left_tile[TILE][TILE];
    __shared__ float right_tile[TILE][TILE];
    constexpr unsigned across = (D + TILE - 1) / TILE;
    constexpr unsigned down = (T + TILE - 1) / TILE;
    const u64 tile = flat_workgroup();
    if (tile >= (u64)HEADS / GROUP * down * across) return;
    const u64 head = tile / ((u64)down * across);
    const unsigned first_row = (unsigned)(tile / across % down) * TILE;
    const unsigned row = first_row + threadIdx.y;
    const unsigned d = (unsigned)(tile % across) * TILE + threadIdx.x;

    float acc = 0.0f;
    for (unsigned i0 = 0; i0 < QUERIES; i0 += TILE) {
        const unsigned i = i0 + threadIdx.y;
        const unsigned along = first_row + threadIdx.x;
        left_tile[threadIdx.y][threadIdx.x] = i < QUERIES && along < T ? left[(head * QUERIES + i) * T + along] : 0.0f;
        right_tile[threadIdx.y][threadIdx.x] = i < QUERIES && d < D ? load(right[(head * QUERIES + i) * D + d]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned x = 0; x < TILE; x++) acc = fmaf(left_tile[x][threadIdx.y], right_tile[x][threadIdx.x], acc);
        __syncthreads();
    }
    if (row < T && d < D) gradient[(head * T + row) * D + d] = to_elem(acc);
}

// Last stage of attention with the score matrix in device memory. The definition is in core/workloads/src/ops/attention.
//
// attention_weighted_sum  out = weights * V in 16 x 16 tiles in shared memory; in the backward pass, dQ from dS and K

#include "attention/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void attention_weighted_sum(float* __restrict__ scores, const elem* __restrict__ v,
                                                  elem* __restrict__ out
#if OWN_LENGTHS
    , const unsigned* __restrict__ lengths
#endif
    ) {
    Masks masks;
#if OWN_LENGTHS
    masks.lengths = lengths;
#endif
    __shared__ float w_tile[TILE][TILE];
    __shared__ float v_tile[TILE][TILE];
    constexpr unsigned across = (D + TILE - 1) / TILE;
    constexpr unsigned down = (S + TILE - 1) / TILE;
    const u64 tile = flat_workgroup();
    if (tile >= (u64)HEADS * down * across) return;
    const u64 head = tile / ((u64)down * across);
    const u64 key_head = head / GROUP;
    const unsigned row = (unsigned)(tile / across % down) * TILE + threadIdx.y;
    const unsigned d = (unsigned)(tile % across) * TILE + threadIdx.x;

    // Weights beyond the length are zero. Values there may be NaN.
    const unsigned keys = masks.keys_of(head);
    float acc = 0.0f;
    for (unsigned key0 = 0; key0 < keys; key0 += TILE) {
        const unsigned w_key = key0 + threadIdx.x;
        const unsigned v_key = key0 + threadIdx.y;
        w_tile[threadIdx.y][threadIdx.x] = row < S && w_key < keys ? scores[(head * S + row) * T + w_key] : 0.0f;
        v_tile[threadIdx.y][threadIdx.x] = v_key < keys && d < D ? load(v[(key_head * T + v_key) * D + d]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned x = 0; x < TILE; x++) acc = fmaf(w_tile[threadIdx.y][x], v_tile[x][threadIdx.x], acc);
        __syncthreads();
    }
    if (row < S && d < D) out[(head * S + row) * D + d] = to_elem(acc);
}

// Products of the tokens of a chunk, for all heads of a group. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_scores  a block per chunk and group: row j and column i have B[j] · C[i]

#include "ssm_scan/tile.cuh"

// Element n of four tokens, zeros outside.
__device__ __forceinline__ float4 four_tokens(const elem* __restrict__ of, u64 sequence, unsigned token, unsigned of_group, unsigned n) {
    float four[4] = {};
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        if (token + i < S && n < N) four[i] = load(of[((sequence * S + token + i) * GROUPS + of_group) * N + n]);
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_scan_scores(const elem* __restrict__ b, const elem* __restrict__ c, float* __restrict__ scores) {
    __shared__ Tiles tiles;
    const u64 index = flat_workgroup();
    if (index >= (u64)SEQUENCES * CHUNKS * GROUPS) return;
    const unsigned of_group = index % GROUPS, first = index / GROUPS % CHUNKS * CHUNK;
    const u64 sequence = index / GROUPS / CHUNKS;
    float sums[8][4] = {};
#pragma unroll 1
    for (unsigned depth = 0; depth < N; depth += DEPTH) {
#pragma unroll
        for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
            const unsigned n = depth + e % DEPTH, token = first + e / DEPTH * 4, at = e % DEPTH * STRIDE + e / DEPTH;
            tiles.left[at] = four_tokens(b, sequence, token, of_group, n);
            tiles.right[at] = four_tokens(c, sequence, token, of_group, n);
        }
        __syncthreads();
        tiles.add<0, 8, false>(sums);
        __syncthreads();
    }
#pragma unroll
    for (unsigned i = 0; i < 8; i++) {
        reinterpret_cast<float4*>(scores)[(index * CHUNK + row_of(i)) * QUADS + threadIdx.x % QUADS] =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    }
}

// States of chunks that begin with zeros. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_states  a block per chunk, head and tile of its state: elements of the state are rows, and the head dim is columns

#include "ssm_scan/chunk.cuh"
#include "ssm_scan/tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_scan_states(const elem* __restrict__ x, const elem* __restrict__ dt, const elem* __restrict__ b, const float* __restrict__ heads,
                    float* __restrict__ states, float* __restrict__ totals) {
    __shared__ Chunk chunk;
    __shared__ Tiles tiles;
    constexpr unsigned across = (D + 63) / 64, down = (N + 63) / 64;
    const u64 tile = flat_workgroup(), index = tile / (down * across);
    if (index >= (u64)SEQUENCES * CHUNKS * HEADS) return;
    const unsigned row = tile / across % down * 64, column = tile % across * 64;
    const unsigned head = index % HEADS, first = index / HEADS % CHUNKS * CHUNK;
    const u64 sequence = index / HEADS / CHUNKS;
    chunk.fill_by_block(dt, heads, sequence, head, first);
    const float total = chunk.exponents[CHUNK - 1];
    if (row == 0 && column == 0 && threadIdx.x == 0) totals[index] = total;
    float sums[8][4] = {};
#pragma unroll 1
    for (unsigned depth = 0; depth < CHUNK; depth += DEPTH) {
#pragma unroll
        for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
            const unsigned j = depth + e / QUADS, quad = e % QUADS * 4, at = e / QUADS * STRIDE + e % QUADS;
            const float weight = expf(total - chunk.exponents[j]) * chunk.steps[j];
            const u64 token = sequence * S + first + j;
            const bool exists = first + j < S;
            tiles.left[at] = quad_of(b + (token * GROUPS + head / (HEADS / GROUPS)) * N, row + quad, exists ? N : 0);
            tiles.right[at] = times(weight, quad_of(x + (token * HEADS + head) * D, column + quad, exists ? D : 0));
        }
        __syncthreads();
        tiles.add<0, 8, false>(sums);
        __syncthreads();
    }
    const unsigned d = column + threadIdx.x % QUADS * 4;
#pragma unroll
    for (unsigned i = 0; i < 8; i++) {
        const unsigned n = row + row_of(i);
        if (n >= N) continue;
        float* const at = states + (index * N + n) * D + d;
        if constexpr (WIDTH == 4) {
            if (d < D) *reinterpret_cast<float4*>(at) = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        } else {
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                if (d + j < D) at[j] = sums[i][j];
            }
        }
    }
}

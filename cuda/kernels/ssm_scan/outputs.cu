// Results of chunks, from their tokens and the states before them. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_outputs  a block per chunk, head and 64 columns of the head dim; tokens are rows
//
// A product of a weight of zero and NaN is NaN. Later tokens are therefore left out, not weighted by zero.

#include "ssm_scan/chunk.cuh"
#include "ssm_scan/tile.cuh"

// Four neighbours of a row of a state, zeros outside.
__device__ __forceinline__ float4 quad_of_state(const float* __restrict__ row, unsigned d, bool exists) {
    if constexpr (WIDTH == 4) {
        return exists && d < D ? *reinterpret_cast<const float4*>(row + d) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    } else {
        float four[4] = {};
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (exists && d + i < D) four[i] = row[d + i];
        }
        return make_float4(four[0], four[1], four[2], four[3]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_scan_outputs(const elem* __restrict__ x, const elem* __restrict__ dt, const elem* __restrict__ c, const float* __restrict__ heads,
                     const float* __restrict__ scores, const float* __restrict__ states, elem* __restrict__ out) {
    __shared__ Chunk chunk;
    __shared__ Tiles tiles;
    constexpr unsigned across = (D + 63) / 64;
    const u64 tile = flat_workgroup(), index = tile / across;
    if (index >= (u64)SEQUENCES * CHUNKS * HEADS) return;
    const unsigned column = tile % across * 64, head = index % HEADS;
    const u64 of_chunk = index / HEADS, sequence = of_chunk / CHUNKS;
    const unsigned first = of_chunk % CHUNKS * CHUNK;
    const unsigned of_group = head / (HEADS / GROUPS);
    chunk.fill_by_block(dt, heads, sequence, head, first);
    float sums[8][4] = {};
    const float4* const scored = reinterpret_cast<const float4*>(scores) + (of_chunk * GROUPS + of_group) * CHUNK * QUADS;
#pragma unroll 1
    for (unsigned depth = 0; depth < CHUNK; depth += DEPTH) {
#pragma unroll
        for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
            const unsigned j = depth + e / QUADS, quad = e % QUADS * 4, at = e / QUADS * STRIDE + e % QUADS;
            const float4 products = scored[j * QUADS + e % QUADS];
            float weights[4];
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                weights[i] = quad + i < j ? 0.0f : expf(chunk.exponents[quad + i] - chunk.exponents[j]) * chunk.steps[j];
            }
            tiles.left[at] =
                make_float4(products.x * weights[0], products.y * weights[1], products.z * weights[2], products.w * weights[3]);
            tiles.right[at] = quad_of(x + ((sequence * S + first + j) * HEADS + head) * D, column + quad, first + j < S ? D : 0);
        }
        __syncthreads();
        // A thread's lower rows see all tokens of the first half, and its upper rows none of the second.
        if (depth < CHUNK / 2) {
            tiles.add<0, 4, true>(sums, depth);
            tiles.add<4, 8, false>(sums);
        } else {
            tiles.add<4, 8, true>(sums, depth);
        }
        __syncthreads();
    }
    // No state is before the first chunk.
    if (first > 0) {
#pragma unroll 1
        for (unsigned depth = 0; depth < N; depth += DEPTH) {
#pragma unroll
            for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
                const unsigned n = depth + e % DEPTH, i = e / DEPTH * 4;
                float four[4] = {};
#pragma unroll
                for (unsigned o = 0; o < 4; o++) {
                    if (first + i + o < S && n < N) {
                        four[o] = load(c[((sequence * S + first + i + o) * GROUPS + of_group) * N + n]) * expf(chunk.exponents[i + o]);
                    }
                }
                tiles.left[e % DEPTH * STRIDE + e / DEPTH] = make_float4(four[0], four[1], four[2], four[3]);
                const unsigned row = depth + e / QUADS, d = column + e % QUADS * 4;
                tiles.right[e / QUADS * STRIDE + e % QUADS] = quad_of_state(states + (index * N + row) * D, d, row < N);
            }
            __syncthreads();
            tiles.add<0, 8, false>(sums);
            __syncthreads();
        }
    }
    const float skip = heads[HEADS + head];
    const unsigned d = column + threadIdx.x % QUADS * 4;
#pragma unroll
    for (unsigned i = 0; i < 8; i++) {
        const unsigned token = first + row_of(i);
        if (token >= S) continue;
        const u64 row = ((sequence * S + token) * HEADS + head) * D;
        const float4 input = quad_of(x + row, d, D);
        const float inputs[4] = {input.x, input.y, input.z, input.w};
        elem4 results;
#pragma unroll
        for (unsigned j = 0; j < 4; j++) results.at[j] = to_elem(fmaf(skip, inputs[j], sums[i][j]));
        if constexpr (WIDTH == 4) {
            if (d < D) *reinterpret_cast<elem4*>(out + row + d) = results;
        } else {
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                if (d + j < D) out[row + d + j] = results.at[j];
            }
        }
    }
}

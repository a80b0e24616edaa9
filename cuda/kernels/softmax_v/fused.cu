// Softmax of rows times a matrix, in one stage: weights stay in the multiprocessor. The definition is in
// core/workloads/src/ops/softmax_v.
//
// softmax_v_fused  a block owns 64 rows of x, and processes them in tiles of 32 elements with an online softmax

#include "attention/vectors.cuh"
#include "lib/reduce.cuh"

// Thread (tx, ty) takes elements 2 tx and 2 tx + 1 of rows 4 ty .. 4 ty + 3, and sums column vectors tx + 16 j of the same rows'
// output. The sixteen threads of a row are half a warp: maxima are exchanged by shuffles.
extern "C" __global__ void __launch_bounds__(256)
    softmax_v_fused(const elem* __restrict__ x, const elem* __restrict__ v, elem* __restrict__ out) {
    static_assert(ROWS == 64 && KEYS == 32 && STAGED == VALUES * COLUMNS * 16, "each of 16 x 16 threads takes 4 x 2");
    __shared__ float4 staged[STAGED];
    __shared__ alignas(16) float weights[ROWS][KEYS];
    constexpr unsigned blocks = (S + ROWS - 1) / ROWS;
    const u64 index = flat_workgroup();
    if (index >= (u64)BATCH * blocks) return;
    const u64 item = index / blocks;
    const unsigned row0 = (unsigned)(index % blocks) * ROWS, tx = threadIdx.x, ty = threadIdx.y;
    const elem* const values = v + item * T * D;

    float4 acc[4][COLUMNS] = {};
    float max[4], sum[4];
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        // A tile may be minus infinity only.
        max[r] = LOWEST;
        sum[r] = 0.0f;
    }
    for (unsigned first = 0; first < T; first += KEYS) {
        const unsigned left = first + 2 * tx, right = left + 1;
        // Ends the reads of the previous tile's weights.
        __syncthreads();
#pragma unroll
        for (unsigned r = 0; r < 4; r++) {
            // Rows past the end repeat the last one, and are not written.
            const elem* const row = x + (item * S + min(row0 + 4 * ty + r, S - 1)) * T;
            const float2 own = make_float2(left < T ? load(row[left]) : negative_infinity(),
                                           right < T ? load(row[right]) : negative_infinity());
            const float highest = fmaxf(max[r], lanes_max(fmaxf(own.x, own.y), 16));
            const float2 weight = make_float2(expf(own.x - highest), expf(own.y - highest));
            const float rescale = expf(max[r] - highest);
            sum[r] = sum[r] * rescale + weight.x + weight.y;
            max[r] = highest;
            *reinterpret_cast<float2*>(&weights[4 * ty + r][2 * tx]) = weight;
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) {
                acc[r][j].x *= rescale;
                acc[r][j].y *= rescale;
                acc[r][j].z *= rescale;
                acc[r][j].w *= rescale;
            }
        }
        add_rows<KEYS>(acc, weights, staged, values, first, T);
    }

#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        // Each thread has summed its own weights only.
        const float inverse = 1.0f / lanes_sum(sum[r], 16);
        const unsigned row = row0 + 4 * ty + r;
        if (row >= S) continue;
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            const float4 a = acc[r][j];
            store_columns(out + (item * S + row) * D, (tx + 16 * j) * 4,
                          make_float4(a.x * inverse, a.y * inverse, a.z * inverse, a.w * inverse));
        }
    }
}

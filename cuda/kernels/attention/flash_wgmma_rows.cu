// First stage of attention's backward pass by warpgroups. The definition is in core/workloads/src/ops/attention.
//
// attention_flash_wgmma_rows  of each query the log-sum-exp to base two and delta = dout . out; zeros where dQ is summed

#include "attention/head_pieces.cuh"
#include "attention/query_tiles.cuh"
#include "lib/reduce.cuh"

// Eight neighbours.
struct alignas(16) elem8 {
    elem at[8];
};

// Lanes of a row: a power of two, of which PIECES have eight elements each.
constexpr unsigned THREADS = 256, PIECES = D / 8, LANES = PIECES > 8 ? 16 : 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_flash_wgmma_rows(const elem* __restrict__ dout, const elem* __restrict__ out, const float* __restrict__ lse,
                               float* __restrict__ numbers, float* __restrict__ sums) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x, row = index / LANES;
    const unsigned lane = threadIdx.x % LANES, head = row / (QUERY_TILES * QUERIES), query = row % (QUERY_TILES * QUERIES);
    if (head >= HEADS) return;
    if (lane < WIDTH / 8) {
        float4* const zeros = reinterpret_cast<float4*>(sums) + 2 * (row * (WIDTH / 8) + lane);
        zeros[0] = zeros[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    const u64 from = (u64)head * S + query;
    float sum = 0.0f;
    if (query < S && lane < PIECES) {
        const u64 piece = first_piece(head, query) + lane;
        const elem8 a = reinterpret_cast<const elem8*>(dout)[piece], b = reinterpret_cast<const elem8*>(out)[piece];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) sum = fmaf(load(a.at[i]), load(b.at[i]), sum);
    }
    // Lanes of a warp have rows of one head: the number of its rows is a multiple of theirs.
    sum = lanes_sum(sum, LANES);
    if (lane != 0) return;
    float* const to = numbers + row / QUERIES * OF_NUMBERS + row % QUERIES;
    // Past the end, no key has any weight.
    to[0] = query < S ? lse[from] * LOG2_E : -negative_infinity();
    to[QUERIES] = sum;
}

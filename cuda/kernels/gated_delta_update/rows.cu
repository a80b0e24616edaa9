// Update of states by one token in pieces. The definition is in core/workloads/src/ops/gated_delta_update.rs.
//
// gated_delta_update_rows  a block per head and LANES pieces of its rows; DOWN threads have ROWS rows of a piece each
//
// A thread reads its rows before it uses the first. The result follows from sums over the state before the token:
// out = α · (Sᵀq) + (k · q) · δ.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned DOWN = THREADS / LANES, WARPS = THREADS / 32;
static_assert(LANES <= 32 && THREADS % 32 == 0, "a warp has whole rows of pieces");

// Sum over the lanes of a warp that have the same piece. Every lane gets it.
__device__ __forceinline__ float down_sum(float x) {
#pragma unroll
    for (unsigned step = LANES; step < 32; step *= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_update_rows(float* __restrict__ state, const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
                            const float* __restrict__ g, const elem* __restrict__ beta, elem* __restrict__ out) {
    // Sums of all warps: rows by the key and by the query, and products of both.
    __shared__ piece by_keys[WARPS][LANES], by_queries[WARPS][LANES];
    __shared__ float agreements[WARPS];
    const u64 index = flat_workgroup(), of_head = index / PARTS;
    if (of_head >= ALL_HEADS) return;
    const unsigned lane = threadIdx.x % LANES, down = threadIdx.x / LANES, warp = threadIdx.x / 32;
    const unsigned at = index % PARTS * LANES + lane;
    const bool inside = at < PIECES;
    piece before[ROWS];
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        const unsigned row = r * DOWN + down;
        before[r] = inside && row < DK ? load_floats(state, (of_head * DK + row) * PIECES + at) : piece_of(0.0f);
    }
    float keys[ROWS], agreement = 0.0f;
    piece by_key = piece_of(0.0f), by_query = piece_of(0.0f);
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        const unsigned row = r * DOWN + down;
        keys[r] = row < DK ? load(k[of_head * DK + row]) : 0.0f;
        const float query = row < DK ? load(q[of_head * DK + row]) : 0.0f;
        agreement = fmaf(keys[r], query, agreement);
#pragma unroll
        for (unsigned e = 0; e < WIDTH; e++) {
            by_key.at[e] = fmaf(keys[r], before[r].at[e], by_key.at[e]);
            by_query.at[e] = fmaf(query, before[r].at[e], by_query.at[e]);
        }
    }
    agreement = down_sum(agreement);
#pragma unroll
    for (unsigned e = 0; e < WIDTH; e++) {
        by_key.at[e] = down_sum(by_key.at[e]);
        by_query.at[e] = down_sum(by_query.at[e]);
    }
    if (threadIdx.x % 32 < LANES) {
        by_keys[warp][lane] = by_key;
        by_queries[warp][lane] = by_query;
        if (lane == 0) agreements[warp] = agreement;
    }
    __syncthreads();
    if (!inside) return;
    by_key = by_query = piece_of(0.0f);
    agreement = 0.0f;
#pragma unroll
    for (unsigned other = 0; other < WARPS; other++) {
        agreement += agreements[other];
#pragma unroll
        for (unsigned e = 0; e < WIDTH; e++) {
            by_key.at[e] += by_keys[other][lane].at[e];
            by_query.at[e] += by_queries[other][lane].at[e];
        }
    }
    const float decay = expf(g[of_head]), strength = load(beta[of_head]);
    const piece value = load_piece(v, of_head * PIECES + at);
    piece delta, result;
#pragma unroll
    for (unsigned e = 0; e < WIDTH; e++) {
        delta.at[e] = strength * (value.at[e] - decay * by_key.at[e]);
        result.at[e] = SCALE * fmaf(decay, by_query.at[e], agreement * delta.at[e]);
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        const unsigned row = r * DOWN + down;
        if (row >= DK) continue;
        piece next;
#pragma unroll
        for (unsigned e = 0; e < WIDTH; e++) next.at[e] = fmaf(keys[r], delta.at[e], decay * before[r].at[e]);
        store_floats(state, (of_head * DK + row) * PIECES + at, next);
    }
    if (down == 0) store_piece(out, of_head * PIECES + at, result);
}

// Update of states by one token, a column of a state per thread. The definition is in core/workloads/src/ops/gated_delta_update.rs.

#include "lib/launch.cuh"

static_assert(WIDTH == 1, "a piece is a column");

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_update_naive(float* __restrict__ state, const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v,
                             const float* __restrict__ g, const elem* __restrict__ beta, elem* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x, of_head = index / PIECES;
    if (of_head >= ALL_HEADS) return;
    float* const own = state + of_head * DK * PIECES + index % PIECES;
    const elem *const key = k + of_head * DK, *const query = q + of_head * DK;
    const float decay = expf(g[of_head]);
    float known = 0.0f;
    for (unsigned row = 0; row < DK; row++) known = fmaf(load(key[row]), own[(u64)row * PIECES], known);
    const float delta = load(beta[of_head]) * (load(v[index]) - decay * known);
    float sum = 0.0f;
    for (unsigned row = 0; row < DK; row++) {
        const float next = fmaf(load(key[row]), delta, decay * own[(u64)row * PIECES]);
        own[(u64)row * PIECES] = next;
        sum = fmaf(load(query[row]), next, sum);
    }
    out[index] = to_elem(SCALE * sum);
}

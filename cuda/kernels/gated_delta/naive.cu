// Gated delta rule, a column of a state per thread, token by token. The definition is in core/workloads/src/ops/gated_delta.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_naive(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v, const float* __restrict__ g,
                      const elem* __restrict__ beta, elem* __restrict__ out, float* __restrict__ state) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x, of_head = index / DV;
    if (of_head >= (u64)SEQUENCES * HEADS) return;
    const unsigned column = index % DV;
    float* const own = state + of_head * DK * DV + column;
    for (unsigned row = 0; row < DK; row++) own[(u64)row * DV] = 0.0f;
    for (unsigned t = 0; t < S; t++) {
        const u64 token = (of_head / HEADS * S + t) * HEADS + of_head % HEADS;
        const elem *const key = k + token * DK, *const query = q + token * DK;
        const float decay = expf(g[token]);
        float known = 0.0f;
        for (unsigned row = 0; row < DK; row++) known = fmaf(load(key[row]), own[(u64)row * DV], known);
        const float delta = load(beta[token]) * (load(v[token * DV + column]) - decay * known);
        float sum = 0.0f;
        for (unsigned row = 0; row < DK; row++) {
            const float next = fmaf(load(key[row]), delta, decay * own[(u64)row * DV]);
            own[(u64)row * DV] = next;
            sum = fmaf(load(query[row]), next, sum);
        }
        out[token * DV + column] = to_elem(SCALE * sum);
    }
}

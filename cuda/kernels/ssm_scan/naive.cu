// Selective state-space model, a row of a state per thread, token by token. The definition is in core/workloads/src/ops/ssm_scan.

#include "lib/launch.cuh"
#include "lib/softplus.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_scan_naive(const elem* __restrict__ x, const elem* __restrict__ dt, const elem* __restrict__ b, const elem* __restrict__ c,
                   const float* __restrict__ heads, elem* __restrict__ out, float* __restrict__ state) {
    const u64 row = flat_workgroup() * THREADS + threadIdx.x;
    if (row >= (u64)SEQUENCES * HEADS * D) return;
    const u64 sequence = row / D / HEADS;
    const unsigned head = row / D % HEADS;
    for (unsigned j = 0; j < N; j++) state[row * N + j] = 0.0f;
    for (unsigned t = 0; t < S; t++) {
        const u64 token = sequence * S + t, at = (token * HEADS + head) * D + row % D;
        const float step = softplus(load(dt[token * HEADS + head]) + heads[2 * HEADS + head]);
        const float decay = expf(step * heads[head]), input = load(x[at]);
        const u64 shared_at = (token * GROUPS + head / (HEADS / GROUPS)) * N;
        float sum = heads[HEADS + head] * input;
        for (unsigned j = 0; j < N; j++) {
            const float next = fmaf(state[row * N + j], decay, step * input * load(b[shared_at + j]));
            state[row * N + j] = next;
            sum = fmaf(load(c[shared_at + j]), next, sum);
        }
        out[at] = to_elem(sum);
    }
}

// Update of states by one token, a row of a state per thread. The definition is in core/workloads/src/ops/ssm_update.rs.

#include "ssm_update/token.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_update_naive(float* __restrict__ state, const elem* __restrict__ x, const elem* __restrict__ dt, const elem* __restrict__ b,
                     const elem* __restrict__ c, const float* __restrict__ heads,
#if GATED
                     const elem* __restrict__ z,
#endif
                     elem* __restrict__ out) {
    const u64 row = flat_workgroup() * THREADS + threadIdx.x;
    if (row >= ALL_ROWS) return;
    const unsigned of_head = row / D, head = of_head % HEADS, shared_at = first_piece(of_head);
    const float step = step_of(dt, heads, of_head), decay = expf(step * heads[head]);
    const float input = load(x[row]), taken = step * input;
    float sum = 0.0f;
    for (unsigned i = 0; i < PIECES; i++) {
        const float next = fmaf(state[row * PIECES + i], decay, taken * load(b[shared_at + i]));
        state[row * PIECES + i] = next;
        sum = fmaf(load(c[shared_at + i]), next, sum);
    }
    float result = result_of(sum, heads[HEADS + head], input);
#if GATED
    result *= silu(load(z[row]));
#endif
    out[row] = to_elem(result);
}

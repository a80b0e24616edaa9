// Causal depthwise convolution, one output element per thread. The definition is in core/workloads/src/ops/causal_conv1d.rs.

#include "lib/launch.cuh"
#include "lib/softplus.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    causal_conv1d_naive(const elem* __restrict__ x, const elem* __restrict__ w, const elem* __restrict__ bias, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned channel = at % PIECES, token = at / PIECES % S;
    float sum = load(bias[channel]);
    for (unsigned j = 0; j < TAPS; j++) {
        // Tokens before the first are zero.
        if (token + j + 1 >= TAPS) {
            sum = fmaf(load(w[(u64)channel * TAPS + j]), load(x[at - (u64)(TAPS - 1 - j) * PIECES]), sum);
        }
    }
#if SILU
    sum = silu(sum);
#endif
    out[at] = to_elem(sum);
}

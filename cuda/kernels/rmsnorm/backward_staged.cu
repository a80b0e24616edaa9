// Backward pass of RMS normalisation, with the next rows under way in shared memory. The definition is in
// core/workloads/src/ops/rmsnorm.

constexpr bool CENTRED = false, ADDS = false;

#include "layernorm/staged.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    rmsnorm_backward_staged(const elem* __restrict__ x, const float* __restrict__ rstd, const elem* __restrict__ gamma,
                            const elem* __restrict__ dout, elem* __restrict__ dx, float* __restrict__ parts) {
    backward_staged(x, nullptr, rstd, gamma, dout, dx, parts);
}

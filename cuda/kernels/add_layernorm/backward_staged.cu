// Backward pass of a sum and its layer normalisation, with the next rows under way in shared memory. The definition is in
// core/workloads/src/ops/add_layernorm.

constexpr bool CENTRED = true, ADDS = true;

#include "layernorm/staged.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    layernorm_backward_staged(const elem* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ rstd,
                              const elem* __restrict__ gamma, const elem* __restrict__ dout, elem* __restrict__ dx,
                              float* __restrict__ parts, const elem* __restrict__ dsum) {
    backward_staged(x, mean, rstd, gamma, dout, dx, parts, dsum);
}

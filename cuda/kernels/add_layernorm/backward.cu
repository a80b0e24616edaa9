// Backward pass of a sum and its layer normalisation. The sum has a gradient of its own, from its other uses. The definition is
// in core/workloads/src/ops/add_layernorm.

#include "layernorm/backward.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    layernorm_backward_row(const elem* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ rstd,
                           const elem* __restrict__ gamma, const elem* __restrict__ dout, elem* __restrict__ dx,
                           float* __restrict__ parts, const elem* __restrict__ dsum) {
    backward_rows(x, mean, rstd, gamma, dout, dx, parts, [=](u64 at) { return load_piece(dsum, at); });
}

// Transposed filters for the gradient of the input, which is a convolution with them: for each input channel of a group, the
// output channels at each tap, from `[m, c/g, taps]`. The definition is in core/workloads/src/ops/conv2d/backward.rs.

#include "conv2d/common.cuh"
#include "lib/launch.cuh"

static_assert(BACK && !LAST, "channels that come last are neighbours as they are");

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_turned(const elem* __restrict__ w, elem* __restrict__ turned) {
    constexpr unsigned terms = FROM_C * TAPS;
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= (u64)GROUPS * TO_C * terms) return;
    const unsigned row = (unsigned)(at / terms), term = (unsigned)(at % terms);
    turned[at] = w[weight_at(row / TO_C, row % TO_C, term / TAPS, term % TAPS)];
}

// Keys of 30 bits that fall with scores from zero to below two. The definition is in core/workloads/src/ops/nms.rs.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    nms_keys(const float* __restrict__ scores, unsigned* __restrict__ keys) {
    const u64 i = flat_workgroup() * THREADS + threadIdx.x;
    if (i < N) keys[i] = 0x3FFFFFFFu - min(__float_as_uint(fmaxf(scores[i], 0.0f)), 0x3FFFFFFFu);
}

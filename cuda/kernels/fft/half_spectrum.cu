// Half of the spectrum of real lines, from the transform of their pairs, one result per thread. The definition is in
// core/workloads/src/ops/fft.

#include "lib/launch.cuh"
#include "fft/complex.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    fft_half_spectrum(const float* __restrict__ z, const float* __restrict__ roots, float* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned k = (unsigned)(at % (HALF + 1));
    const float2* line = pairs(z) + at / (HALF + 1) * HALF;
    pairs(out)[at] = of_pair(line[k % HALF], line[(HALF - k) % HALF], pairs(roots)[2 * HALF + k]);
}

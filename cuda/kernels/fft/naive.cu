// Discrete Fourier transform along one dimension by the definition, one result per thread. The definition is in
// core/workloads/src/ops/fft.
//
// A line has LEN elements, INNER apart, and RESULTS results. Terms are summed in parts of 64, so that fewer roundings add up.

#include "fft/complex.cuh"
#include "lib/launch.cuh"

#if REAL
typedef float given;
__device__ __forceinline__ float2 element(float x) { return make_float2(x, 0.0f); }
#else
typedef float2 given;
__device__ __forceinline__ float2 element(float2 x) { return x; }
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    fft_naive(const float* __restrict__ x, const float* __restrict__ roots, float* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned k = (unsigned)(at / INNER % RESULTS);
    const given* line = reinterpret_cast<const given*>(x) + at / INNER / RESULTS * ((u64)LEN * INNER) + at % INNER;
    unsigned root_at = 0;
    float2 total = make_float2(0.0f, 0.0f);
    for (unsigned first = 0; first < LEN; first += 64) {
        float2 part = make_float2(0.0f, 0.0f);
        for (unsigned j = first; j < min(first + 64, LEN); j++) {
            const float2 a = element(line[(u64)j * INNER]);
            const float2 root = pairs(roots)[ROOT + root_at];
#if INVERSE
            const float sine = -root.y;
#else
            const float sine = root.y;
#endif
            part.x += a.x * root.x - a.y * sine;
            part.y += a.x * sine + a.y * root.x;
            root_at += k;
            if (root_at >= LEN) root_at -= LEN;
        }
        total.x += part.x;
        total.y += part.y;
    }
    pairs(out)[at] = total;
}

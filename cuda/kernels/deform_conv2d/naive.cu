// Deformable convolution, one element of the result per thread. The definition is in core/workloads/src/ops/deform_conv2d.rs.

#include "deform_conv2d/places.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    deform_conv2d_naive(const elem* __restrict__ x, const float* __restrict__ offset, const elem* __restrict__ mask,
                        const elem* __restrict__ w, const elem* __restrict__ bias, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const u64 row = at / M;
    const unsigned to = (unsigned)(at % M);
    float sum = load(bias[to]);
    for (unsigned tap = 0; tap < K * K; tap++) {
        const Beside own = beside(offset, row, tap);
        const float share = load(mask[row * (K * K) + tap]);
        const elem* const weights = w + ((u64)to * (K * K) + tap) * C;
        for (unsigned channel = 0; channel < C; channel++) {
            float value = 0.0f;
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                if (own.inside[i]) value = fmaf(own.weights[i], load(x[own.pixels[i] * C + channel]), value);
            }
            sum = fmaf(share * value, load(weights[channel]), sum);
        }
    }
    out[at] = to_elem(sum);
}

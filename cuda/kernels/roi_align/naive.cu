// Boxes of images resampled to bins, one bin of a channel per thread. The definition is in core/workloads/src/ops/roi_align.rs.

#include "roi_align/taps.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    roi_align_naive(const elem* __restrict__ x, const float* __restrict__ boxes, const unsigned* __restrict__ index,
                    elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned bin = (unsigned)(at % (P * P)), channel = (unsigned)(at / (P * P) % C), own = (unsigned)(at / (P * P) / C);
    const float4 box = __ldg(reinterpret_cast<const float4*>(boxes) + own);
    Tap rows[S], columns[S];
#pragma unroll
    for (unsigned i = 0; i < S; i++) {
        rows[i] = tap(box.y, box.w, bin / P * S + i, H);
        columns[i] = tap(box.x, box.z, bin % P * S + i, W);
    }
    out[at] = to_elem(samples_of(x + ((u64)index[own] * C + channel) * (H * W), rows, columns) * SHARE);
}

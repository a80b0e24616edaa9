// One workgroup: each kept box in turn excludes the later ones that overlap it. The definition is in core/workloads/src/ops/nms.rs.

#include "nms/overlap.cuh"
#include "nms/rank.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) nms_naive(const float* __restrict__ boxes, unsigned* keep
#if CLASSED
                                                                ,
                                                                const unsigned* __restrict__ classes
#endif
#if SCORED
                                                                ,
                                                                const unsigned* __restrict__ order
#endif
) {
    const float4* __restrict__ const corners = reinterpret_cast<const float4*>(boxes);
    for (unsigned i = threadIdx.x; i < N; i += THREADS) keep[i] = 1;
    for (unsigned rank = 0; rank < N; rank++) {
        __syncthreads();
        const unsigned i = BOX_OF(rank);
        if (keep[i] == 0) continue;
        const float4 own = corners[i];
        const float area = area_of(own);
        for (unsigned later = rank + 1 + threadIdx.x; later < N; later += THREADS) {
            const unsigned j = BOX_OF(later);
#if CLASSED
            if (classes[i] != classes[j]) continue;
#endif
            const float4 other = corners[j];
            if (overlaps(own, area, other, area_of(other))) keep[j] = 0;
        }
    }
}

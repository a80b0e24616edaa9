// Last stage of attention's backward passes that add dQ atomically.
//
// attention_dq_convert  sums to the element type, four per thread

#include "lib/launch.cuh"

extern "C" __global__ void attention_dq_convert(const float* __restrict__ dq_sum, elem* __restrict__ dq) {
    constexpr u64 count = (u64)HEADS * S * D;
    const u64 first = (flat_workgroup() * THREADS + threadIdx.x) * 4;
    if (first + 3 < count) {
        const float4 x = *reinterpret_cast<const float4*>(dq_sum + first);
        *reinterpret_cast<elem4*>(dq + first) = {to_elem(x.x), to_elem(x.y), to_elem(x.z), to_elem(x.w)};
    } else {
        for (u64 i = first; i < count; i++) dq[i] = to_elem(dq_sum[i]);
    }
}

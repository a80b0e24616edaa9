// Depthwise 3-D convolution, forward, one output element per thread, every tap read from device memory. The definition is in
// core/workloads/src/ops/depthwise_conv3d.

#include "depthwise_conv3d/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void depthwise_conv3d_direct(const elem* __restrict__ x, const elem* __restrict__ w,
                                                   elem* __restrict__ out
#if BIASED
    , const elem* __restrict__ bias
#endif
) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)N * C * OD * OH * OW) return;
    const place here = place_of(index, OD, OH, OW);
    place from = here;
    float sum = 0.0f;
    for (unsigned i = 0; i < KD; i++) {
        // Unsigned: coordinates before the image wrap around and exceed its extent.
        from.z = here.z * SD + i * LD - PD;
        if (from.z >= ID) continue;
        for (unsigned j = 0; j < KH; j++) {
            from.y = here.y * SH + j * LH - PH;
            if (from.y >= IH) continue;
            for (unsigned k = 0; k < KW; k++) {
                from.x = here.x * SW + k * LW - PW;
                if (from.x >= IW) continue;
                sum = fmaf(load(x[index_of(from, ID, IH, IW)]), load(w[tap_index(here.c, i, j, k)]), sum);
            }
        }
    }
#if BIASED
    sum += load(bias[here.c]);
#endif
    if constexpr (RELU) sum = relu(sum);
    out[index] = to_elem(sum);
}

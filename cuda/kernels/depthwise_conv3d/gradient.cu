// Gradient of the image of a depthwise convolution, one element per thread, every tap's gradient read from device memory. The
// definition is in core/workloads/src/ops/depthwise_conv3d/backward.rs.

#include "depthwise_conv3d/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void depthwise_gradient(const elem* __restrict__ dout, const elem* __restrict__ w,
                                              elem* __restrict__ dx) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)N * C * ID * IH * IW) return;
    const place here = place_of(index, ID, IH, IW);
    place over = here;
    float sum = 0.0f;
    for (unsigned i = 0; i < KD; i++) {
        // Unsigned: coordinates before the result wrap around and exceed its extent.
        const unsigned z = here.z + PD - i * LD;
        over.z = z / SD;
        if (z % SD != 0 || over.z >= OD) continue;
        for (unsigned j = 0; j < KH; j++) {
            const unsigned y = here.y + PH - j * LH;
            over.y = y / SH;
            if (y % SH != 0 || over.y >= OH) continue;
            for (unsigned k = 0; k < KW; k++) {
                const unsigned x = here.x + PW - k * LW;
                over.x = x / SW;
                if (x % SW != 0 || over.x >= OW) continue;
                sum = fmaf(load(dout[index_of(over, OD, OH, OW)]), load(w[tap_index(here.c, i, j, k)]), sum);
            }
        }
    }
    dx[index] = to_elem(sum);
}

// Depthwise 2-D convolution, forward, one output element per thread, every tap read from device memory. The definition is in
// core/workloads/src/ops/depthwise_conv2d.rs.

#include "depthwise_conv2d/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void depthwise_conv2d_direct(const elem* __restrict__ x, const elem* __restrict__ w,
                                                   elem* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)N * C * OH * OW) return;
    // Threads follow the output's memory order.
    unsigned n, c, oy, ox;
    if constexpr (NHWC) {
        c = (unsigned)(index % C);
        ox = (unsigned)(index / C % OW);
        oy = (unsigned)(index / ((u64)C * OW) % OH);
        n = (unsigned)(index / ((u64)C * OW * OH));
    } else {
        ox = (unsigned)(index % OW);
        oy = (unsigned)(index / OW % OH);
        c = (unsigned)(index / ((u64)OW * OH) % C);
        n = (unsigned)(index / ((u64)OW * OH * C));
    }
    float acc = 0.0f;
    for (unsigned i = 0; i < KH; i++) {
        // Coordinates left of the image wrap to large numbers: one comparison tests both sides.
        const unsigned iy = oy * STRIDE + i * DILATION - PAD;
        if (iy >= H) continue;
        for (unsigned j = 0; j < KW; j++) {
            const unsigned ix = ox * STRIDE + j * DILATION - PAD;
            if (ix >= W) continue;
            acc = fmaf(load(x[image_index(n, c, iy, ix, H, W)]), load(w[filter_index(c, i, j)]), acc);
        }
    }
    out[index] = to_elem(acc);
}

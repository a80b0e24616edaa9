// Depthwise 2-D convolution, forward: one output element per thread, every tap read from device memory. The definition
// is in core/src/suite/workloads/depthwise_conv2d.rs.

extern "C" __global__ void depthwise_conv2d_direct(const elem* __restrict__ x, const elem* __restrict__ w,
                                                   elem* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)N * C * OH * OW) return;
    // Threads follow the output's memory order.
#if NHWC
    const unsigned c = (unsigned)(index % C);
    const unsigned ox = (unsigned)(index / C % OW);
    const unsigned oy = (unsigned)(index / ((u64)C * OW) % OH);
    const unsigned n = (unsigned)(index / ((u64)C * OW * OH));
#else
    const unsigned ox = (unsigned)(index % OW);
    const unsigned oy = (unsigned)(index / OW % OH);
    const unsigned c = (unsigned)(index / ((u64)OW * OH) % C);
    const unsigned n = (unsigned)(index / ((u64)OW * OH * C));
#endif
    float acc = 0.0f;
    for (unsigned i = 0; i < KH; i++) {
        // Left of the image wraps to a huge number, so one comparison tests both sides.
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

// Interpolated taps of a deformable convolution, in pieces of WIDTH channels: rows of a GEMM. The definition is in
// core/workloads/src/ops/deform_conv2d.rs.

#include "deform_conv2d/places.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    deform_conv2d_taps(const elem* __restrict__ x, const float* __restrict__ offset, const elem* __restrict__ mask,
                       elem* __restrict__ taps) {
    constexpr unsigned pieces = C / WIDTH;
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const u64 number = at / pieces;
    const unsigned channel = (unsigned)(at % pieces);
    const Beside own = beside(offset, number / (K * K), (unsigned)(number % (K * K)));
    const float share = load(mask[number]);
    piece sum = piece_of(0.0f);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        if (!own.inside[i]) continue;
        const piece pixel = load_piece(x, own.pixels[i] * pieces + channel);
#pragma unroll
        for (unsigned e = 0; e < WIDTH; e++) sum.at[e] = fmaf(own.weights[i], pixel.at[e], sum.at[e]);
    }
#pragma unroll
    for (unsigned e = 0; e < WIDTH; e++) sum.at[e] *= share;
    store_piece(taps, at, sum);
}

// Gradients of the filters and of the bias of a depthwise convolution, one block per sum. The definition is in
// core/workloads/src/ops/depthwise_conv3d/backward.rs.
//
// depthwise_filter_direct  a tap of a channel: gradients of the result times the image's elements under it
// depthwise_bias_direct    a channel: gradients of the result

#include "depthwise_conv3d/common.cuh"
#include "lib/launch.cuh"
#include "lib/reduce.cuh"

// Sum of `term` over every position of the result in one channel, for all threads of the block.
template <typename Term>
__device__ __forceinline__ float sum_of_channel(unsigned c, Term term) {
    __shared__ float partial[THREADS / 32];
    float sum = 0.0f;
    for (u64 at = threadIdx.x; at < (u64)N * OD * OH * OW; at += THREADS) {
        place p;
        p.c = c;
        p.x = (unsigned)(at % OW);
        p.y = (unsigned)(at / OW % OH);
        p.z = (unsigned)(at / ((u64)OW * OH) % OD);
        p.n = (unsigned)(at / ((u64)OW * OH * OD));
        sum += term(p);
    }
    return block_sum(sum, partial);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_filter_direct(const elem* __restrict__ x, const elem* __restrict__ dout, elem* __restrict__ dw) {
    const u64 number = flat_workgroup();
    if (number >= (u64)C * KD * KH * KW) return;
    const unsigned c = (unsigned)(CHANNELS_LAST ? number % C : number / (KD * KH * KW));
    const unsigned tap = (unsigned)(CHANNELS_LAST ? number / C : number % (KD * KH * KW));
    const unsigned i = tap / (KH * KW), j = tap / KW % KH, k = tap % KW;
    const float sum = sum_of_channel(c, [=](const place& p) {
        // Unsigned: coordinates before the image wrap around and exceed its extent.
        place from = p;
        from.z = p.z * SD + i * LD - PD;
        from.y = p.y * SH + j * LH - PH;
        from.x = p.x * SW + k * LW - PW;
        if (from.z >= ID || from.y >= IH || from.x >= IW) return 0.0f;
        return load(dout[index_of(p, OD, OH, OW)]) * load(x[index_of(from, ID, IH, IW)]);
    });
    if (threadIdx.x == 0) dw[number] = to_elem(sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_bias_direct(elem* __restrict__ dbias, const elem* __restrict__ dout) {
    const u64 c = flat_workgroup();
    if (c >= C) return;
    const float sum =
        sum_of_channel((unsigned)c, [=](const place& p) { return load(dout[index_of(p, OD, OH, OW)]); });
    if (threadIdx.x == 0) dbias[c] = to_elem(sum);
}

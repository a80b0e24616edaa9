// Boxes of images resampled to bins, a bin of several channels per thread. The definition is in core/workloads/src/ops/roi_align.rs.
//
// A block has one box, up to WIDE of its bins, and CHANNELS channels. TEAMS teams of WIDE threads share the channels. A thread keeps
// the pixels and weights of its bin in registers for all of its channels. Neighbouring threads write neighbouring elements.

#include "roi_align/taps.cuh"

// Channels whose pixels a thread loads together.
constexpr unsigned AT_ONCE = S > 2 ? 1 : 2;

extern "C" __global__ void __launch_bounds__(THREADS)
    roi_align_bins(const elem* __restrict__ x, const float* __restrict__ boxes, const unsigned* __restrict__ index,
                   elem* __restrict__ out) {
    constexpr unsigned tiles = (P * P + WIDE - 1) / WIDE, parts = (C + CHANNELS - 1) / CHANNELS;
    const u64 block = flat_workgroup();
    const unsigned team = threadIdx.x / WIDE, bin = (unsigned)(block % tiles) * WIDE + threadIdx.x % WIDE;
    if (block >= (u64)tiles * parts * R || team >= TEAMS || bin >= P * P) return;
    const unsigned first = (unsigned)(block / tiles % parts) * CHANNELS, own = (unsigned)(block / tiles / parts);
    const float4 box = __ldg(reinterpret_cast<const float4*>(boxes) + own);
    Tap rows[S], columns[S];
#pragma unroll
    for (unsigned i = 0; i < S; i++) {
        rows[i] = tap(box.y, box.w, bin / P * S + i, H);
        columns[i] = tap(box.x, box.z, bin % P * S + i, W);
    }
    const unsigned end = min(first + CHANNELS, C);
    const elem* plane = x + ((u64)index[own] * C + first + team) * (H * W);
    elem* to = out + ((u64)own * C + first + team) * (P * P) + bin;
#pragma unroll AT_ONCE
    for (unsigned channel = first + team; channel < end; channel += TEAMS) {
        *to = to_elem(samples_of(plane, rows, columns) * SHARE);
        plane += (u64)TEAMS * (H * W);
        to += TEAMS * P * P;
    }
}

// Windows of a pooling. The definition is in core/workloads/src/ops/pool/mod.rs.

#include "lib/pixels.cuh"

// First index of a range, and one past its last.
struct Span {
    unsigned begin, end;
};

// Pixels of a window along an extent.
__device__ __forceinline__ Span window(unsigned at, unsigned extent, unsigned outputs, unsigned kernel) {
    if constexpr (ADAPTIVE) return Span{at * extent / outputs, ((at + 1) * extent + outputs - 1) / outputs};
    const unsigned begin = at * STRIDE;
    return Span{max(begin, PAD) - PAD, min(begin + kernel - PAD, extent)};
}

// Windows that contain a pixel.
__device__ __forceinline__ Span around(unsigned pixel, unsigned extent, unsigned outputs, unsigned kernel) {
    if constexpr (ADAPTIVE) return Span{pixel * outputs / extent, ((pixel + 1) * outputs + extent - 1) / extent};
    const unsigned reach = pixel + PAD;
    return Span{reach >= kernel ? (reach - kernel) / STRIDE + 1 : 0, min(reach / STRIDE + 1, outputs)};
}

// Places of a resized image among the pixels of the input. The definition is in core/workloads/src/ops/resize/taps.rs.

#include "lib/pixels.cuh"

// Both pixels beside an output along an extent, and the weight of the second.
struct Taps {
    unsigned first, second;
    float weight;
};

__device__ __forceinline__ Taps taps(unsigned at, unsigned extent, unsigned outputs) {
    if constexpr (NEAREST) {
        const unsigned pixel = at * extent / outputs;
        return Taps{pixel, pixel, 0.0f};
    }
    // The place in units of half an output, which are whole.
    const unsigned place = max((2 * at + 1) * extent, outputs) - outputs, first = place / (2 * outputs);
    return Taps{first, min(first + 1, extent - 1), (float)(place % (2 * outputs)) / (float)(2 * outputs)};
}

// Weight of a pixel in an output.
__device__ __forceinline__ float weight_in(unsigned pixel, unsigned at, unsigned extent, unsigned outputs) {
    const Taps beside = taps(at, extent, outputs);
    return (beside.first == pixel ? 1.0f - beside.weight : 0.0f) + (beside.second == pixel ? beside.weight : 0.0f);
}

// First index of a range, and one past its last.
struct Span {
    unsigned begin, end;
};

// Outputs around a pixel.
__device__ __forceinline__ Span around(unsigned pixel, unsigned extent, unsigned outputs) {
    if constexpr (NEAREST) {
        return Span{(pixel * outputs + extent - 1) / extent, ((pixel + 1) * outputs + extent - 1) / extent};
    }
    const unsigned first = (max(2 * outputs * pixel, outputs + extent) - (outputs + extent)) / (2 * extent);
    const unsigned last = (max(outputs * (2 * pixel + 3), extent) - extent) / (2 * extent);
    return Span{first, min(last + 1, outputs)};
}

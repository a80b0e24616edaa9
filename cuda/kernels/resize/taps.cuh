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

// Weight of a pixel in one of its outputs: one less their distance.
__device__ __forceinline__ float weight_in(unsigned pixel, unsigned at, unsigned extent, unsigned outputs) {
    if constexpr (NEAREST) return 1.0f;
    const unsigned unit = 2 * outputs, own = pixel * unit;
    const unsigned place = min(max((2 * at + 1) * extent, outputs) - outputs, (extent - 1) * unit);
    const unsigned apart = max(place, own) - min(place, own);
    return (float)(unit - min(apart, unit)) / (float)unit;
}

// First index of a range, and one past its last.
struct Span {
    unsigned begin, end;
};

// Outputs with a weight of a pixel.
__device__ __forceinline__ Span around(unsigned pixel, unsigned extent, unsigned outputs) {
    if constexpr (NEAREST) {
        return Span{(pixel * outputs + extent - 1) / extent, ((pixel + 1) * outputs + extent - 1) / extent};
    }
    const unsigned first = (max(2 * outputs * pixel + extent, outputs) - outputs) / (2 * extent);
    const unsigned end = (outputs * (2 * pixel + 3) + extent - 1) / (2 * extent);
    return Span{first, min(end, outputs)};
}

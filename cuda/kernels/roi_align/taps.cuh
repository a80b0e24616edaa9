// Places of samples among the pixels of an image. The definition is in core/workloads/src/ops/roi_align.rs.

#include "lib/launch.cuh"

// Both pixels beside a sample along an extent, and the weight of the second. A sample outside has pixels that may be read.
struct Tap {
    unsigned low, high;
    float weight;
    bool inside;
};

// Sample `at` of a box from `start` to `end`. A place that is NaN is outside.
__device__ __forceinline__ Tap tap(float start, float end, unsigned at, unsigned pixels) {
    const float place = start - 0.5f + ((float)at + 0.5f) * ((end - start) * SAMPLE);
    Tap own;
    own.inside = place >= -1.0f && place <= (float)pixels;
    const float within = own.inside ? fmaxf(place, 0.0f) : 0.0f;
    own.low = min((unsigned)within, pixels - 1);
    own.high = min(own.low + 1, pixels - 1);
    own.weight = own.low == own.high ? 0.0f : within - (float)own.low;
    return own;
}

// Sum of the samples of a bin in a plane.
__device__ __forceinline__ float samples_of(const elem* __restrict__ plane, const Tap (&rows)[S], const Tap (&columns)[S]) {
    float sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < S; i++) {
        const elem *const upper = plane + rows[i].low * W, *const lower = plane + rows[i].high * W;
        const float down = rows[i].weight;
#pragma unroll
        for (unsigned j = 0; j < S; j++) {
            const unsigned low = columns[j].low, high = columns[j].high;
            const float across = columns[j].weight;
            const float above = (1.0f - across) * load(upper[low]) + across * load(upper[high]);
            const float below = (1.0f - across) * load(lower[low]) + across * load(lower[high]);
            const float sample = (1.0f - down) * above + down * below;
            sum += rows[i].inside && columns[j].inside ? sample : 0.0f;
        }
    }
    return sum;
}

// Epilogues of the GEMMs of a part of the logits.

#include "lib/launch.cuh"
#include "linear_cross_entropy/slope.cuh"

// Gradient of a logit.
struct Slope {
    const unsigned* __restrict__ targets;
    const float* __restrict__ lse;
    const float* __restrict__ dloss;

    __device__ __forceinline__ float operator()(u64 at, unsigned column, float logit) const {
        return Row((unsigned)at / N, targets, lse, dloss).slope(column, logit);
    }
};

// Sum with those of the parts before, which are kept in f32.
struct Added {
    float* __restrict__ sums;

    __device__ __forceinline__ float operator()(u64 at, unsigned, float sum) const {
        if (FIRST > 0) sum += sums[at];
#if !LAST
        sums[at] = sum;
#endif
        return sum;
    }
};

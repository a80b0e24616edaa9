// Gradients of logits, and epilogues of the GEMMs of both gradients. FIRST is the class of the first column of this part of the
// logits.

#include "lib/exponential.cuh"

// Gradient of a logit of a row, from the row's log-sum-exp, target and gradient of its loss.
struct Row {
    float lse, dloss;
    unsigned target;

    __device__ __forceinline__ Row(unsigned row, const unsigned* targets, const float* lse, const float* dloss)
        : lse(lse[row]), dloss(dloss[row]), target(targets[row]) {}

    __device__ __forceinline__ float slope(unsigned column, float logit) const {
        if (target >= CLASSES) return 0.0f;
        return (exponential(logit - lse) - (FIRST + column == target ? 1.0f : 0.0f)) * dloss;
    }
};

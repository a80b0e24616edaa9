// Gradient before ReLU. With GATED the input is the result's gradient, which becomes zero where the result is zero or below.
// Otherwise an earlier stage has done this.

#include "lib/pieces.cuh"

__device__ __forceinline__ piece gated(piece gradient, const piece& result) {
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        gradient.at[i] = gated_by(result.at[i], gradient.at[i]);
    }
    return gradient;
}

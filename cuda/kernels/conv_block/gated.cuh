// The gradient of what ReLU was given. With GATED it is that of the result, of which nothing is left where the result is zero or below;
// otherwise this has been done.

#include "lib/pieces.cuh"

__device__ __forceinline__ piece gated(piece gradient, const piece& result) {
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        gradient.at[i] = gated_by(result.at[i], gradient.at[i]);
    }
    return gradient;
}

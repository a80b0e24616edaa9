// Rotation of the pieces of both halves of a head.

#include "lib/pieces.cuh"

__device__ __forceinline__ void rotate(piece& first, piece& second, const piece& cosine, const piece& sine) {
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        const float rotated = first.at[i] * cosine.at[i] - second.at[i] * sine.at[i];
        second.at[i] = second.at[i] * cosine.at[i] + first.at[i] * sine.at[i];
        first.at[i] = rotated;
    }
}

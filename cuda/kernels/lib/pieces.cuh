// Arrays in pieces of WIDTH neighbouring elements.

#include "lib/elem.cuh"

// A piece as it lies in memory, moved as one, and as it is computed with.
struct alignas(WIDTH * sizeof(elem)) stored {
    elem at[WIDTH];
};

struct piece {
    float at[WIDTH];
};

__device__ __forceinline__ piece piece_of(float x) {
    piece filled;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) filled.at[i] = x;
    return filled;
}

__device__ __forceinline__ stored load_stored(const elem* __restrict__ x, u64 index) {
    return reinterpret_cast<const stored*>(x)[index];
}

__device__ __forceinline__ piece widened(const stored& from) {
    piece wide;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) wide.at[i] = load(from.at[i]);
    return wide;
}

__device__ __forceinline__ piece load_piece(const elem* __restrict__ x, u64 index) {
    return widened(load_stored(x, index));
}

__device__ __forceinline__ void store_piece(elem* __restrict__ out, u64 index, const piece& x) {
    stored to;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) to.at[i] = to_elem(x.at[i]);
    reinterpret_cast<stored*>(out)[index] = to;
}

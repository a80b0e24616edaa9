// Arrays in pieces of WIDTH neighbouring elements.

#include "lib/elem.cuh"

// A piece as in memory, moved as one, and as f32 for arithmetic.
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
#if defined(ELEM_F32) || __CUDA_ARCH__ < 800
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) to.at[i] = to_elem(x.at[i]);
#else
    // One conversion takes two neighbours.
#pragma unroll
    for (unsigned i = 0; i + 1 < WIDTH; i += 2) {
        const unsigned both = pack(x.at[i], x.at[i + 1]);
        to.at[i].bits = (unsigned short)both;
        to.at[i + 1].bits = (unsigned short)(both >> 16);
    }
    if constexpr (WIDTH % 2 != 0) to.at[WIDTH - 1] = to_elem(x.at[WIDTH - 1]);
#endif
    reinterpret_cast<stored*>(out)[index] = to;
}

// Pieces of arrays that are f32 for any element type.
struct alignas(WIDTH * sizeof(float)) floats {
    float at[WIDTH];
};

__device__ __forceinline__ piece load_floats(const float* __restrict__ x, u64 index) {
    const floats from = reinterpret_cast<const floats*>(x)[index];
    piece wide;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) wide.at[i] = from.at[i];
    return wide;
}

__device__ __forceinline__ void store_floats(float* __restrict__ out, u64 index, const piece& x) {
    floats to;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) to.at[i] = x.at[i];
    reinterpret_cast<floats*>(out)[index] = to;
}

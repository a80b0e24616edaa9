// Index arithmetic of both layouts, for kernels with one element per thread.

#include "lib/elem.cuh"

// Image or example, channel and position of an element.
struct place {
    unsigned n, c, z, y, x;
};

// Place of an element of an array of these extents.
__device__ __forceinline__ place place_of(u64 index, unsigned depth, unsigned height, unsigned width) {
    place p;
    if constexpr (CHANNELS_LAST) {
        p.c = (unsigned)(index % C);
        index /= C;
    }
    p.x = (unsigned)(index % width);
    index /= width;
    p.y = (unsigned)(index % height);
    index /= height;
    p.z = (unsigned)(index % depth);
    index /= depth;
    if constexpr (!CHANNELS_LAST) {
        p.c = (unsigned)(index % C);
        index /= C;
    }
    p.n = (unsigned)index;
    return p;
}

__device__ __forceinline__ u64 index_of(const place& p, unsigned depth, unsigned height, unsigned width) {
    const u64 plane = CHANNELS_LAST ? p.n : (u64)p.n * C + p.c;
    const u64 pixel = ((plane * depth + p.z) * height + p.y) * width + p.x;
    return CHANNELS_LAST ? pixel * C + p.c : pixel;
}

__device__ __forceinline__ u64 tap_index(unsigned c, unsigned i, unsigned j, unsigned k) {
    const unsigned tap = (i * KH + j) * KW + k;
    return CHANNELS_LAST ? (u64)tap * C + c : (u64)c * (KD * KH * KW) + tap;
}

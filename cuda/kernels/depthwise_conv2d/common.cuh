// Index arithmetic of both layouts, for the variants of depthwise_conv2d.

#include "lib/elem.cuh"

// Index of an element of a [N, C, height, width] or [N, height, width, C] tensor.
__device__ __forceinline__ u64 image_index(unsigned n, unsigned c, unsigned y, unsigned x, unsigned height,
                                           unsigned width) {
    return NHWC ? (((u64)n * height + y) * width + x) * C + c : (((u64)n * C + c) * height + y) * width + x;
}

__device__ __forceinline__ unsigned filter_index(unsigned c, unsigned i, unsigned j) {
    return NHWC ? (i * KW + j) * C + c : (c * KH + i) * KW + j;
}

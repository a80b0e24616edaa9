// Shared by the variants of depthwise_conv2d: the index arithmetic of both layouts.

// Position of an element of a [N, C, height, width] or [N, height, width, C] tensor.
__device__ __forceinline__ u64 image_index(unsigned n, unsigned c, unsigned y, unsigned x, unsigned height,
                                           unsigned width) {
#if NHWC
    return (((u64)n * height + y) * width + x) * C + c;
#else
    return (((u64)n * C + c) * height + y) * width + x;
#endif
}

__device__ __forceinline__ unsigned filter_index(unsigned c, unsigned i, unsigned j) {
#if NHWC
    return (i * KW + j) * C + c;
#else
    return (c * KH + i) * KW + j;
#endif
}

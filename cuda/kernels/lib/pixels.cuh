// Index arithmetic of images.
//
// Channels are counted in pieces. In nchw the first index covers images and channels, in nhwc images alone. STEP is the distance
// of neighbours in a row: the channels of a pixel, or one.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Element of a tensor: first index, row, column, and the channel within its pixel.
struct Element {
    unsigned first, row, column, channel;
};

__device__ __forceinline__ Element split(u64 at, unsigned rows, unsigned columns) {
    const unsigned flat = (unsigned)at, pixel = flat / STEP, line = pixel / columns;
    return Element{line / rows, line % rows, pixel % columns, flat % STEP};
}

__device__ __forceinline__ u64 position(const Element& of, unsigned row, unsigned column, unsigned rows,
                                        unsigned columns) {
    return (((u64)of.first * rows + row) * columns + column) * STEP + of.channel;
}

// `count` neighbours, moved as one: a piece of channels, or one element.
template <typename T, unsigned count>
struct alignas(count * sizeof(T)) Neighbours {
    T at[count];
};

template <unsigned count, typename T>
__device__ __forceinline__ Neighbours<T, count> neighbours(const T* __restrict__ x, u64 index) {
    return reinterpret_cast<const Neighbours<T, count>*>(x)[index];
}

// Vectors of neighbouring elements that a kernel reads once, past the cache of the multiprocessor.

#include "lib/elem.cuh"

template <unsigned width>
struct alignas(width * sizeof(elem)) Vector {
    elem at[width];
};

// 16 bytes from an address that is a multiple of 16.
__device__ __forceinline__ uint4 read_words(const void* from) {
#if __CUDA_ARCH__ >= 800
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
#else
    return *static_cast<const uint4*>(from);
#endif
}

// Vector `index` of an array, or zeros where `inside` is false; then nothing is read.
template <unsigned width>
__device__ __forceinline__ Vector<width> read_once(const elem* from, u64 index, bool inside) {
    if constexpr (width * sizeof(elem) == 16) {
        union {
            uint4 words;
            Vector<width> vector;
        } x = {make_uint4(0, 0, 0, 0)};
        if (inside) x.words = read_words(from + index * width);
        return x.vector;
    } else {
        return inside ? reinterpret_cast<const Vector<width>*>(from)[index] : Vector<width>{};
    }
}

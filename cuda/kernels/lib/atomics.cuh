// Atomic additions to sums in device memory.

// Adds two neighbours of a row of `columns` columns, as far as the row goes. `to` is the address of column `column`, an even one.
// Rows begin at multiples of `columns` elements.
template <unsigned columns>
__device__ __forceinline__ void add_pair(float* to, unsigned column, float first, float second) {
#if __CUDA_ARCH__ >= 900
    if constexpr (columns % 2 == 0) {
        // One operation for both, where their address is a multiple of eight bytes.
        if (column < columns) {
            asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first), "f"(second) : "memory");
        }
        return;
    }
#endif
    if (column < columns) atomicAdd(to, first);
    if (column + 1 < columns) atomicAdd(to + 1, second);
}

#if __CUDA_ARCH__ >= 900

// Adds four neighbours, in one operation. Their address is a multiple of 16 bytes.
__device__ __forceinline__ void add_four(float* to, float a, float b, float c, float d) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

#endif

// Atomic addition of pieces to sums of f32 in device memory.

#include "lib/pieces.cuh"

// Adds to piece `at` of the sums, which begin at a multiple of 16 bytes.
__device__ __forceinline__ void add_piece(float* sums, u64 at, const piece& x) {
    float* to = sums + at * WIDTH;
#if __CUDA_ARCH__ >= 900
    if constexpr (WIDTH % 4 == 0) {
        // One operation for four neighbours.
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i += 4) {
            asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + i), "f"(x.at[i]), "f"(x.at[i + 1]),
                         "f"(x.at[i + 2]), "f"(x.at[i + 3])
                         : "memory");
        }
        return;
    } else if constexpr (WIDTH == 2) {
        asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x.at[0]), "f"(x.at[1]) : "memory");
        return;
    }
#endif
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) atomicAdd(to + i, x.at[i]);
}

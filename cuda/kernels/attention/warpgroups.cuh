#pragma once
// Pieces of the kernels by warpgroups, forward and backward.

#include "attention/common.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

// Numbers of the places of a block: its own first, then the next that no block has yet, or those at equal distances.
struct Next {
#if DRAWN
    unsigned* drawn;
#endif
    unsigned index;

    __device__ __forceinline__ void advance() {
#if DRAWN
        index = gridDim.x * gridDim.y + atomicAdd(drawn, 1u);
#else
        index += gridDim.x * gridDim.y;
#endif
    }
};

// Barriers of some threads of the block, by number. Number 0 is __syncthreads.
template <unsigned threads>
__device__ __forceinline__ void named_sync(unsigned barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

template <unsigned threads>
__device__ __forceinline__ void named_arrive(unsigned barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

// Power of two by the hardware's unit. Numbers below the smallest normal one are zero.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

constexpr float LOG2_E = 1.4426950408889634f;

#pragma once
// Pieces of the kernels by warpgroups, forward and backward.

#include "attention/common.cuh"
#include "lib/exp2.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/named.cuh"
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

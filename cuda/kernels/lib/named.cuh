// Barriers of some threads of the block, by number. Number 0 is __syncthreads.

#include "lib/elem.cuh"

template <unsigned threads>
__device__ __forceinline__ void named_sync(unsigned barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

// Arrives without a wait.
template <unsigned threads>
__device__ __forceinline__ void named_arrive(unsigned barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

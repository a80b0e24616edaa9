// Waiting that gives up: a mistake then fails the test instead of holding the device.

#include "lib/mbarrier.cuh"

// A second or so. Instructions of whole warps may follow, so the warp comes together again after the loop.
constexpr long long PATIENCE = 2000000000;

__device__ __forceinline__ void wait_or_trap(mbarrier* barrier, unsigned parity) {
    const long long begin = clock64();
    while (!mbarrier_try(barrier, parity)) {
        if (clock64() - begin > PATIENCE) __trap();
    }
    __syncwarp();
}

__device__ __forceinline__ void wait_for_cluster_or_trap(mbarrier* barrier, unsigned parity) {
    const long long begin = clock64();
    while (!mbarrier_try_cluster(barrier, parity)) {
        if (clock64() - begin > PATIENCE) __trap();
    }
    __syncwarp();
}

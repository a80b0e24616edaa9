// Clusters: blocks of a grid that run at the same time and reach each other's shared memory, from compute capability 9.0
// on. How many blocks a cluster has is said at the launch.

#include "lib/elem.cuh"

#if __CUDA_ARCH__ >= 900

// This block's number in its cluster, from zero, and how many blocks that has.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ unsigned cluster_blocks() {
    unsigned blocks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

// The barrier of all threads of all blocks of a cluster, in two halves: what a thread wrote before it arrived is seen by
// every thread that has waited. Whole warps call them together, each half in turn. A block must not end while another may
// still reach for its shared memory: the last thing of a kernel that does so is this barrier.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// What another block of the cluster has at the place of this block's `p` in shared memory: for ordinary loads and stores.
template <typename T>
__device__ __forceinline__ T* cluster_pointer(T* p, unsigned rank) {
    u64 there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
    return (T*)there;
}

// The same as an address in the cluster's shared memory, as instructions take it, of an address in the block's.
__device__ __forceinline__ unsigned cluster_address(unsigned address, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

#endif

// Clusters: blocks of a grid that run at the same time and reach each other's shared memory, from compute capability 9.0 on. The
// launch sets the number of blocks per cluster.

#include "lib/elem.cuh"

#if __CUDA_ARCH__ >= 900

// This block's rank in its cluster, and the number of blocks.
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

// Barrier of all threads of all blocks of a cluster, in two halves. Writes before the arrival are visible to every thread that
// has waited. Whole warps call the halves alternately. A block must not end while another may access its shared memory: such a
// kernel ends with this barrier.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// Address of the same object in another block's shared memory, for ordinary loads and stores.
template <typename T>
__device__ __forceinline__ T* cluster_pointer(T* p, unsigned rank) {
    u64 there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
    return (T*)there;
}

// As cluster_address of an instruction: an address in the cluster's shared memory for one in the block's.
__device__ __forceinline__ unsigned cluster_address(unsigned address, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

#endif

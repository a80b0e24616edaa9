// Copies of boxes of tensors between device and shared memory by the copy engine (TMA), from compute capability 9.0 on.
//
// A tensor is a parameter `const __grid_constant__ CUtensorMap`; extents of tensor and box, strides and the swizzle are in it.
// Coordinates are those of a box's first element, the fastest axis first; they may be negative or beyond the tensor: what
// lies outside is read as zeros and not written. The fastest axis's coordinate lies on a multiple of 16 bytes: -3 floats end a
// kernel on an H200 with an illegal instruction, where -4 are fine. In shared memory a box is dense, its last axis the
// fastest, and begins on a multiple of 128 bytes, or of eight times the swizzle's row (1024 for one of 128 bytes). One thread
// issues a copy.

#include "lib/mbarrier.cuh"

#if __CUDA_ARCH__ >= 900

// As the driver makes it; only the copy engine knows what it means.
struct alignas(64) CUtensorMap {
    u64 opaque[16];
};

// Fetch a tensor's description ahead of its first use.
__device__ __forceinline__ void tma_prefetch(const CUtensorMap& tensor) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&tensor) : "memory");
}

// Let the copy engine and the matrix units see what this thread wrote to shared memory by ordinary stores. Each thread that
// wrote calls this, then comes a barrier, then one thread issues the copy.
__device__ __forceinline__ void tma_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Load a box. The whole box's bytes count at the barrier, also those that lie outside of the tensor; it must have been told
// to expect them (`mbarrier_expect`).
__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& tensor, mbarrier* full, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%3, %4}], [%2];"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "r"(x), "r"(y)
                 : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& tensor, mbarrier* full, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%3, %4, %5}], [%2];"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& tensor, mbarrier* full, int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%3, %4, %5, %6}], [%2];"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& tensor, mbarrier* full, int x, int y, int z, int w, int v) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%3, %4, %5, %6, %7}], [%2];"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
                 : "memory");
}

// Load a box into several blocks of the cluster: those whose bits are set in `blocks`. It goes to the same place in each, and
// its bytes count at the same barrier of each, which each has been told to expect.
__device__ __forceinline__ void tma_multicast(void* to, const CUtensorMap& tensor, mbarrier* full, unsigned short blocks,
                                              int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5}], [%2], %3;"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "h"(blocks), "r"(x), "r"(y)
                 : "memory");
}

__device__ __forceinline__ void tma_multicast(void* to, const CUtensorMap& tensor, mbarrier* full, unsigned short blocks,
                                              int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5, %6}], [%2], %3;"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "h"(blocks), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

__device__ __forceinline__ void tma_multicast(void* to, const CUtensorMap& tensor, mbarrier* full, unsigned short blocks,
                                              int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5, %6, %7}], [%2], %3;"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "h"(blocks), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

__device__ __forceinline__ void tma_multicast(void* to, const CUtensorMap& tensor, mbarrier* full, unsigned short blocks,
                                              int x, int y, int z, int w, int v) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5, %6, %7, %8}], [%2], %3;"
                 :
                 : "r"(shared_address(to)), "l"(&tensor), "r"(shared_address(full)), "h"(blocks), "r"(x), "r"(y),
                   "r"(z), "r"(w), "r"(v)
                 : "memory");
}

// Store a box. `tma_fence` and a barrier come before, `tma_commit` after the last store of a group.
__device__ __forceinline__ void tma_store(const CUtensorMap& tensor, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 :
                 : "l"(&tensor), "r"(shared_address(from)), "r"(x), "r"(y)
                 : "memory");
}

__device__ __forceinline__ void tma_store(const CUtensorMap& tensor, const void* from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 :
                 : "l"(&tensor), "r"(shared_address(from)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

__device__ __forceinline__ void tma_store(const CUtensorMap& tensor, const void* from, int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 :
                 : "l"(&tensor), "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

__device__ __forceinline__ void tma_store(const CUtensorMap& tensor, const void* from, int x, int y, int z, int w, int v) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 :
                 : "l"(&tensor), "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
                 : "memory");
}

// Make a group of this thread's stores since the last group.
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Wait until at most `open` of this thread's groups, the latest ones, have still to read shared memory: then it may be
// written again. A block must not end before that.
template <unsigned open>
__device__ __forceinline__ void tma_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(open) : "memory");
}

// Wait until at most `open` of this thread's groups have still to be written to device memory.
template <unsigned open>
__device__ __forceinline__ void tma_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(open) : "memory");
}

#endif

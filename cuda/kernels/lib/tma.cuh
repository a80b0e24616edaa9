// Copies of boxes of tensors between device and shared memory by the copy engine (TMA), from compute capability 9.0 on.
//
// A tensor is a parameter `const __grid_constant__ CUtensorMap` with the extents of tensor and box, strides and swizzle.
// Coordinates are those of a box's first element, the fastest axis first. They may be negative or beyond the tensor: elements
// outside are read as zeros and not written. The coordinate of the fastest axis must be a multiple of 16 bytes: others end the
// kernel with an illegal instruction.
//
// A box in shared memory is dense, with its last axis the fastest. It begins at a multiple of 128 bytes, or of eight times the
// swizzle's row (1024 for one of 128 bytes). One thread issues a copy.

#include "lib/mbarrier.cuh"

#if __CUDA_ARCH__ >= 900

// Opaque: made by the driver, and read by the copy engine.
struct alignas(64) CUtensorMap {
    u64 opaque[16];
};

// Prefetches a tensor's description.
__device__ __forceinline__ void tma_prefetch(const CUtensorMap& tensor) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&tensor) : "memory");
}

// Publishes this thread's ordinary stores to shared memory to the copy engine and the matrix units. Each writing thread calls
// this, a barrier follows, then one thread issues the copy.
__device__ __forceinline__ void tma_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Loads a box. All bytes of the box count at the barrier, also those outside the tensor. The barrier must expect them
// (`mbarrier_expect`).
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

// Loads neighbouring bytes, a multiple of 16 from an address that is one. All count at the barrier.
__device__ __forceinline__ void bulk_load(void* to, const void* from, unsigned bytes, mbarrier* full) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(full))
                 : "memory");
}

// Loads a box into several blocks of the cluster: those with set bits in `blocks`. Each has it at the same place, and its bytes
// count at the same barrier of each, which must expect them.
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

// Stores a box. `tma_fence` and a barrier come before, `tma_commit` after the last store of a group.
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

// Adds neighbouring f32 numbers to those in device memory: a multiple of 16 bytes, from and to addresses that are one. Otherwise
// as a store.
__device__ __forceinline__ void bulk_add(float* to, const float* from, unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :
                 : "l"(to), "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}

// Closes a group of this thread's stores since the last group.
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most `open` of this thread's latest groups have not yet read shared memory, which may then be overwritten. A
// block must not end before that.
template <unsigned open>
__device__ __forceinline__ void tma_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(open) : "memory");
}

// Waits until at most `open` of this thread's groups have not yet been written to device memory.
template <unsigned open>
__device__ __forceinline__ void tma_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(open) : "memory");
}

#endif

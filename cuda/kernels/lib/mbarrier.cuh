// Barriers in shared memory that threads and asynchronous copies arrive at, from compute capability 9.0 on.
//
// A barrier goes through phases, numbered 0, 1, 2... A phase ends when as many arrivals have come as the barrier was begun
// with, and all bytes that were announced. Who waits names the phase by its lowest bit, its parity, and returns once that
// phase has ended. So a ring of stages counts its rounds: round `r` of a stage waits for parity `r & 1` of the barrier that
// says "full", and for parity `(r & 1) ^ 1` of the one that says "empty": of a fresh barrier the phase before the first
// counts as ended, so that the first round finds every stage empty.

#include "lib/cluster.cuh"
#include "lib/shared.cuh"

#if __CUDA_ARCH__ >= 900

struct alignas(8) mbarrier {
    u64 state;
};

// Begin a barrier whose phases end with so many arrivals. One thread does this for all barriers and then calls
// `mbarrier_begun`; after that comes a barrier of everyone who uses them: the block's, or the cluster's where other blocks
// arrive or multicast.
__device__ __forceinline__ void mbarrier_begin(mbarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Show barriers that were begun to the other blocks of the cluster and to the copy engine.
__device__ __forceinline__ void mbarrier_begun() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrive at the same barrier of another block of the cluster, or of this one by its number.
__device__ __forceinline__ void mbarrier_arrive_at(mbarrier* barrier, unsigned rank) {
    const unsigned there = cluster_address(shared_address(barrier), rank);
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// The same for who had only the copy engine or the matrix units touch shared memory, and has waited for them: nothing that the
// thread itself loaded or stored is ordered before it, which spares a fence that all of the device would see.
__device__ __forceinline__ void mbarrier_release_at(mbarrier* barrier, unsigned rank) {
    const unsigned there = cluster_address(shared_address(barrier), rank);
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// Arrive, and announce bytes that copies are to bring before the phase can end: those of all copies that name this barrier
// of this block, whoever issues them. The phase cannot end before this arrival, so bytes of others may come before it.
__device__ __forceinline__ void mbarrier_expect(mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Whether the phase of this parity has ended, after waiting for it for as long as the hardware likes.
__device__ __forceinline__ bool mbarrier_try(mbarrier* barrier, unsigned parity) {
    unsigned ended;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(ended)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return ended != 0;
}

__device__ __forceinline__ void mbarrier_wait(mbarrier* barrier, unsigned parity) {
    while (!mbarrier_try(barrier, parity)) {
    }
}

// The same two where threads of other blocks of the cluster arrive: what they read or wrote before is done and seen.
__device__ __forceinline__ bool mbarrier_try_cluster(mbarrier* barrier, unsigned parity) {
    unsigned ended;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(ended)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return ended != 0;
}

__device__ __forceinline__ void mbarrier_wait_cluster(mbarrier* barrier, unsigned parity) {
    while (!mbarrier_try_cluster(barrier, parity)) {
    }
}

#endif

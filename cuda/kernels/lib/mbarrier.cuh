// Barriers in shared memory for threads and asynchronous copies, from compute capability 9.0 on.
//
// A barrier has phases, numbered 0, 1, 2... A phase ends after its number of arrivals, and after all announced bytes. A waiting
// thread names the phase by its lowest bit, the parity, and continues once that phase has ended.
//
// A ring of stages counts its rounds. Round `r` of a stage waits for parity `r & 1` of the barrier "full", and for parity `(r &
// 1) ^ 1` of the barrier "empty". The phase before the first counts as ended, so that the first round finds every stage empty.

#include "lib/cluster.cuh"
#include "lib/shared.cuh"

#if __CUDA_ARCH__ >= 900

struct alignas(8) mbarrier {
    u64 state;
};

// Initialises a barrier whose phases end after `arrivals` arrivals. One thread does this for all barriers, and then calls
// `mbarrier_begun`. A barrier of all users follows: of the block, or of the cluster where other blocks arrive or multicast.
__device__ __forceinline__ void mbarrier_begin(mbarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Publishes initialised barriers to the other blocks of the cluster and to the copy engine.
__device__ __forceinline__ void mbarrier_begun() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives at the same barrier of another block of the cluster, or of this one by its rank.
__device__ __forceinline__ void mbarrier_arrive_at(mbarrier* barrier, unsigned rank) {
    const unsigned there = cluster_address(shared_address(barrier), rank);
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// As mbarrier_arrive_at, for shared memory that only the copy engine or the matrix units accessed, after waiting for them. The
// thread's own loads and stores are not ordered before it, which saves a fence.
__device__ __forceinline__ void mbarrier_release_at(mbarrier* barrier, unsigned rank) {
    const unsigned there = cluster_address(shared_address(barrier), rank);
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// Arrives, and announces bytes that copies bring before the phase can end: those of all copies that name this barrier of this
// block, from any issuer. The phase cannot end before this arrival, so bytes of others may come before it.
__device__ __forceinline__ void mbarrier_expect(mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Whether the phase of this parity has ended, after a wait of limited length in hardware.
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

// As the two above, where threads of other blocks of the cluster arrive: their earlier accesses are done and visible.
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

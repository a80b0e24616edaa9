// Blocks of a cluster read each other's shared memory, and tell each other when they have.

#include "hopper/patience.cuh"
#include "lib/cluster.cuh"
#include "lib/elem.cuh"

extern "C" __global__ void cluster_sums(const elem* __restrict__ x, elem* __restrict__ out) {
    __shared__ float values[THREADS];
    __shared__ mbarrier all_have_read;
    const unsigned thread = threadIdx.x, at = blockIdx.x * THREADS + thread, blocks = cluster_blocks();
    if (thread == 0) {
        mbarrier_begin(&all_have_read, blocks);
        mbarrier_begun();
    }
    values[thread] = load(x[at]);
    cluster_sync();
    float sum = 0.0f;
    for (unsigned rank = 0; rank < blocks; rank++) sum += cluster_pointer(values, rank)[thread];
    const float next = cluster_pointer(values, (cluster_rank() + 1) % blocks)[thread];
    __syncthreads();
    if (thread < blocks) mbarrier_arrive_at(&all_have_read, thread);
    wait_for_cluster_or_trap(&all_have_read, 0);
    // Nobody sees this any more.
    values[thread] = -1e30f;
    out[at] = to_elem(sum - next);
    cluster_sync();
}

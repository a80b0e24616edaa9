// Places of choices: their rank in a stretch, after the tokens of the same expert in earlier stretches, and after all of earlier
// experts. The definition is in core/workloads/src/ops/moe_route.

#include "lib/before.cuh"
#include "lib/launch.cuh"

// Experts per thread, neighbours.
constexpr unsigned own = (EXPERTS + THREADS - 1) / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
    moe_route_place(const unsigned* __restrict__ counts, const unsigned* __restrict__ totals,
                    const unsigned* __restrict__ experts, unsigned* __restrict__ slots, unsigned* __restrict__ order,
                    unsigned* __restrict__ offsets) {
    __shared__ unsigned of_warps[THREADS / 32], starts[EXPERTS];
    const unsigned index = (unsigned)flat_workgroup();
    // Choices of the thread, read ahead of the sums.
    unsigned expert_at[EACH], rank[EACH];
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) {
        const u64 at = ((u64)index * EACH + i) * THREADS + threadIdx.x;
        expert_at[i] = at < ITEMS ? experts[at] : 0;
        rank[i] = at < ITEMS ? slots[at] : 0;
    }
    unsigned counted[own], sum = 0;
#pragma unroll
    for (unsigned i = 0; i < own; i++) {
        const unsigned expert = threadIdx.x * own + i;
        counted[i] = expert < EXPERTS ? totals[expert] : 0;
        sum += counted[i];
    }
    unsigned start = sum_before(sum, of_warps);
#pragma unroll
    for (unsigned i = 0; i < own; i++) {
        const unsigned expert = threadIdx.x * own + i;
        if (expert < EXPERTS) {
            starts[expert] = start;
            if (index == 0) offsets[expert] = start;
            start += counted[i];
        }
    }
    if (index == 0 && threadIdx.x == 0) offsets[EXPERTS] = ITEMS;
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) {
        const u64 at = ((u64)index * EACH + i) * THREADS + threadIdx.x;
        if (at < ITEMS) {
            const unsigned of_stretch = (unsigned)(at / (STRETCH * CHOICES)) * EXPERTS;
            const unsigned to = rank[i] + starts[expert_at[i]] + counts[of_stretch + expert_at[i]];
            slots[at] = to;
            order[to] = (unsigned)at;
        }
    }
}

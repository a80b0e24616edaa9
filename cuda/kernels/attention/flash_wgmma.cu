// Scaled dot-product attention, forward, by warpgroups (wgmma): compute capability 9.0 only. The definition is in
// core/workloads/src/ops/attention.
//
// A block has WARPGROUPS consumers with 64 query rows each, and one producer. The producer's first thread copies Q, and a ring of
// STAGES tiles of KEYS keys and values. Consumers keep weights in registers, as the operand of the second product. The next
// scores are computed during the second product. Consumers start one after another: one multiplies while another exponentiates.

#include "attention/flash_warpgroups.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_flash_wgmma(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                          const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap out //+ SINKS: , const elem* __restrict__ sinks
#if OWN_LENGTHS
    , const unsigned* __restrict__ lengths
#endif
#if DRAWN
    , unsigned* __restrict__ drawn
#endif
#if KEEPS_LSE
    , float* __restrict__ lse
#endif
    ) {
    extern __shared__ uint4 shared[];
    const Tiles tiles(shared);
    Masks masks; //+ SINKS: masks.sinks = sinks;
#if OWN_LENGTHS
    masks.lengths = lengths;
#endif
#if !KEEPS_LSE
    float* const lse = nullptr;
#endif
    Next next;
    next.index = (unsigned)flat_workgroup();
#if DRAWN
    next.drawn = drawn;
#endif
    if (threadIdx.x == 0) tiles.begin();
    __syncthreads();

    if (threadIdx.x / 128 == WARPGROUPS) {
        if constexpr (WARPGROUPS > 1) give_registers<WARPGROUPS == 2 ? 24 : 32>();
        if (threadIdx.x % 128 == 0) produce(tiles, masks, next, q, k, v);
    } else {
        if constexpr (WARPGROUPS > 1) take_registers<WARPGROUPS == 2 ? 240 : 160>();
        // The same in all lanes, and known to be so.
        Consumer consumer(tiles, __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0));
        consumer.attend(masks, out, lse);
        // The block's shared memory lasts until its results are read.
        tma_wait_read<0>();
    }
}

// Scaled dot-product attention, backward, by warpgroups (wgmma): compute capability 9.0 only. The definition is in
// core/workloads/src/ops/attention.
//
// A block has 128 keys: two consumers with 64 each, and one producer, whose first thread copies K, V and a ring of tiles of Q and
// dO. Consumers keep dK, dV and the weights in registers. Only dS passes through shared memory, for dQ: each consumer computes a
// half of it one step later, and adds it in device memory. A cluster of PARTS blocks shares the steps of 128 keys.

#include "attention/flash_warpgroups_backward.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_flash_wgmma_backward(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                                   const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap dout,
                                   const float* __restrict__ numbers, const __grid_constant__ CUtensorMap dk,
                                   const __grid_constant__ CUtensorMap dv, float* __restrict__ sums
#if OWN_LENGTHS
    , const unsigned* __restrict__ lengths
#endif
    ) {
    extern __shared__ uint4 shared[];
    const unsigned index = (unsigned)flat_workgroup();
    if (index >= KEY_HEADS * KEY_TILES * PARTS) return;
    Masks masks;
#if OWN_LENGTHS
    masks.lengths = lengths;
#endif
    const Tiles tiles(shared);
    const Place place = place_of(index / PARTS);
    const unsigned keys = masks.keys_of(place.head * GROUP);
    const Steps steps(place, masks, keys, index % PARTS);
    if (threadIdx.x == 0) tiles.begin();
    __syncthreads();

    if (threadIdx.x / 128 == WARPGROUPS) {
        give_registers<24>();
        if (threadIdx.x % 128 == 0) produce(tiles, steps, q, k, v, dout, numbers);
    } else {
        take_registers<240>();
        // The same in all lanes, and known to be so.
        Consumer consumer(tiles, steps, masks, __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0), keys, sums);
        consumer.differentiate_keys(dk, dv);
        // The block's shared memory lasts until its results are read.
        tma_wait_read<0>();
    }
}

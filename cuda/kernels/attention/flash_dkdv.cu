// Scaled dot-product attention, backward: dK and dV without a matrix of scores. The definition is in
// core/workloads/src/ops/attention.
//
// attention_flash_dkdv  a block owns 64 keys, recomputes their probabilities tile by tile, and sums in registers

#include "attention/own_keys.cuh"

extern "C" __global__ void __launch_bounds__(256)
    attention_flash_dkdv(const elem* __restrict__ own, const elem* __restrict__ own_value,
                         const elem* __restrict__ other, const elem* __restrict__ other_value,
                         const float* __restrict__ lse, const float* __restrict__ delta, elem* __restrict__ gradient,
                         elem* __restrict__ value_gradient
#if OWN_LENGTHS
    , const unsigned* __restrict__ lengths
#endif
#if BIASED
    , const elem* __restrict__ mask
#endif
    ) {
    Masks masks;
#if OWN_LENGTHS
    masks.lengths = lengths;
#endif
#if BIASED
    masks.mask = mask;
#endif
    own_keys<false>(own, own_value, other, other_value, lse, delta, gradient, value_gradient, nullptr, masks);
}

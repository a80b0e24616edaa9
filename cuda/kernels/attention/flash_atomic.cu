// Scaled dot-product attention, backward: all gradients without a matrix of scores. The definition is in
// core/workloads/src/ops/attention.
//
// attention_flash_atomic  as attention_flash_dkdv, and adds each tile's part of dQ atomically: nothing is computed twice

#include "attention/own_keys.cuh"

extern "C" __global__ void __launch_bounds__(256)
    attention_flash_atomic(const elem* __restrict__ own, const elem* __restrict__ own_value,
                           const elem* __restrict__ other, const elem* __restrict__ other_value,
                           const float* __restrict__ lse, const float* __restrict__ delta, elem* __restrict__ gradient,
                           elem* __restrict__ value_gradient, float* __restrict__ dq_sum
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
    own_keys<true>(own, own_value, other, other_value, lse, delta, gradient, value_gradient, dq_sum, masks);
}

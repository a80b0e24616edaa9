// Scaled dot-product attention, backward: dQ without a matrix of scores. The definition is in core/workloads/src/ops/attention.
//
// attention_flash_dq  a block owns 64 queries, recomputes their probabilities tile by tile, and sums in registers

constexpr bool OF_KEYS = false;

#include "attention/flash_backward.cuh"

extern "C" __global__ void __launch_bounds__(256)
    attention_flash_dq(const elem* __restrict__ own, const elem* __restrict__ own_value, const elem* __restrict__ other,
                       const elem* __restrict__ other_value, const float* __restrict__ lse,
                       const float* __restrict__ delta, elem* __restrict__ gradient
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
    __shared__ float4 staged[STAGED];
    __shared__ alignas(16) float factors[OWN][OTHERS];
    constexpr unsigned tiles = (S + OWN - 1) / OWN;
    const u64 index = flat_workgroup();
    if (index >= (u64)HEADS * tiles) return;
    const u64 head = index / tiles;
    const unsigned query0 = (unsigned)(index % tiles) * OWN;
    const u64 of_keys = head / GROUP * T * D, of_queries = head * S * D;
    const Heads heads = {own + of_queries,      own_value + of_queries, other + of_keys,
                         other_value + of_keys, lse + head * S,         delta + head * S,
                         head,                  masks};

    float4 sums[4][COLUMNS] = {};
    // The tile's last query sees the last keys, its first query the first.
    const unsigned end = masks.seen_keys(head, min(query0 + OWN, S) - 1);
    for (unsigned key0 = masks.window_start(query0) / OTHERS * OTHERS; key0 < end; key0 += OTHERS) {
        const Found found = of_tile(staged, heads, query0, key0);
        share(factors, found.dscore);
        add_rows<OTHERS>(sums, factors, staged, heads.other, key0, masks.keys_of(head));
    }
    store_sums(gradient + of_queries, query0, sums);
}

// Index arithmetic of the caches of attention_decode: pages of PAGE tokens, at most PAGES per sequence.

#include "lib/launch.cuh"

// Index of a token, counted in tokens from the first page.
__device__ __forceinline__ u64 place_of(const unsigned* __restrict__ table, unsigned sequence, unsigned token) {
    const u64 entry = (u64)sequence * PAGES + token / PAGE; //= PREFIXED: const u64 entry = (token < PREFIX ? 0 : (u64)sequence) * PAGES + token / PAGE;
    const u64 page = CONTIGUOUS ? entry : table[entry];
    return page * PAGE + token % PAGE;
}

// First element of a token's key or value for a head of keys.
__device__ __forceinline__ u64 cache_at(const unsigned* __restrict__ table, unsigned sequence, unsigned token,
                                        unsigned key_head) {
    return (place_of(table, sequence, token) * KEY_HEADS + key_head) * D;
}

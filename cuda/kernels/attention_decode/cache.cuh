// Where tokens lie in the caches of attention_decode: pages of PAGE tokens, of which a sequence has up to PAGES.

#include "lib/launch.cuh"

// The first element of a token's key or value for a head of keys.
__device__ __forceinline__ u64 cache_at(const unsigned* __restrict__ table, unsigned sequence, unsigned token,
                                        unsigned key_head) {
    const u64 entry = (u64)sequence * PAGES + token / PAGE;
    const u64 page = CONTIGUOUS ? entry : table[entry];
    return ((page * PAGE + token % PAGE) * KEY_HEADS + key_head) * D;
}

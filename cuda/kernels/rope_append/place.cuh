// Positions and places of `rope_append`: STEP new tokens of each sequence, and a cache of keys (0) and values (1) in pages of PAGE
// tokens, at most PAGES per sequence.

#include "lib/launch.cuh"

constexpr unsigned TOKEN_HEADS = HEADS + 2 * KEY_HEADS, PADDING = 0xFFFFFFFFu;

// Position of a new token, or PADDING before the beginning of its sequence.
__device__ __forceinline__ unsigned position_of(const unsigned* __restrict__ lengths, unsigned token) {
    const unsigned end = lengths[token / STEP] + token % STEP;
    return end < STEP ? PADDING : end - STEP;
}

// Row of the cache for a position of a token's sequence.
__device__ __forceinline__ u64 cache_row(const unsigned* __restrict__ table, unsigned token, unsigned position,
                                         unsigned value, unsigned key_head) {
    const u64 page = table[(u64)(token / STEP) * PAGES + position / PAGE];
    return (((u64)value * ALL_PAGES + page) * PAGE + position % PAGE) * KEY_HEADS + key_head;
}

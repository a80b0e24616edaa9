// LANES neighbouring threads hold both halves of EACH heads of a token as vectors: rotation, codes, and storage in the cache. The
// definition is in core/workloads/src/ops/rope_append.

#include "rope_append/place.cuh"
#include "rope_append/rotate.cuh"
#if CODED
#include "rope_append/codes.cuh"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    rope_append_fused(const elem* __restrict__ qkv, const float* __restrict__ angles, const unsigned* __restrict__ table,
                      const unsigned* __restrict__ lengths,
#if CODED
                      unsigned* __restrict__ cache, elem* __restrict__ q, float* __restrict__ scales) {
#else
                      elem* __restrict__ cache, elem* __restrict__ q) {
#endif
    const unsigned lane = threadIdx.x % LANES;
    const u64 team = flat_workgroup() * (THREADS / LANES) + threadIdx.x / LANES;
    const unsigned first_head = (unsigned)(team % TEAMS) * EACH;
    // Threads beyond the last token or the half of a head load and store nothing. They remain for the shuffles.
    const bool within = team / TEAMS < TOKENS && lane < HALF_PIECES;
    const unsigned token = within ? (unsigned)(team / TEAMS) : 0;
    const unsigned position = within ? position_of(lengths, token) : PADDING;
    // All loads are under way before the first is needed.
    stored firsts[EACH], seconds[EACH];
#pragma unroll
    for (unsigned e = 0; e < EACH; e++) {
        if (position != PADDING && first_head + e < TOKEN_HEADS) {
            const u64 at = ((u64)token * TOKEN_HEADS + first_head + e) * 2 * HALF_PIECES + lane;
            firsts[e] = load_stored(qkv, at);
            seconds[e] = load_stored(qkv, at + HALF_PIECES);
        } else {
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) firsts[e].at[i] = seconds[e].at[i] = to_elem(0.0f);
        }
    }
    piece cosine = piece_of(1.0f), sine = piece_of(0.0f);
    if (position != PADDING && first_head < HEADS + KEY_HEADS) {
        const u64 at = (u64)position * 2 * HALF_PIECES + lane;
        cosine = load_floats(angles, at);
        sine = load_floats(angles, at + HALF_PIECES);
    }
#pragma unroll
    for (unsigned e = 0; e < EACH; e++) {
        const unsigned head = first_head + e;
        piece first = widened(firsts[e]), second = widened(seconds[e]);
        if (head < HEADS + KEY_HEADS) rotate(first, second, cosine, sine);
        if (within && head < HEADS) {
            const u64 at = ((u64)token * HEADS + head) * 2 * HALF_PIECES + lane;
            store_piece(q, at, first);
            store_piece(q, at + HALF_PIECES, second);
        }
        const bool kept = position != PADDING && head >= HEADS && head < TOKEN_HEADS;
        const u64 row = kept ? cache_row(table, token, position, (head - HEADS) / KEY_HEADS, (head - HEADS) % KEY_HEADS) : 0;
        const u64 to = row * 2 * HALF_PIECES + lane;
#if CODED
        const unsigned largest = largest_of_head(first, second);
        const float found = scale_of(largest), inverse = inverse_of(found);
        if (kept) {
            store_codes(cache, to, first, largest, inverse);
            store_codes(cache, to + HALF_PIECES, second, largest, inverse);
            if (lane == 0) scales[row] = found;
        }
#else
        if (kept) {
            store_piece(cache, to, first);
            store_piece(cache, to + HALF_PIECES, second);
        }
#endif
    }
}

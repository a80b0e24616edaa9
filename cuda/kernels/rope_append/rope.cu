// Rotation of queries, and of keys to a buffer of their own: the first stage of `separate`. The definition is in
// core/workloads/src/ops/rope_append.

#include "rope_append/place.cuh"
#include "rope_append/rotate.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    rope_append_rope(const elem* __restrict__ qkv, const float* __restrict__ angles, const unsigned* __restrict__ lengths,
#if CODED
                     elem* __restrict__ q, float* __restrict__ rotated) {
#else
                     elem* __restrict__ q, elem* __restrict__ rotated) {
#endif
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= COUNT) return;
    const unsigned i = (unsigned)index % HALF_PIECES, row = (unsigned)index / HALF_PIECES;
    const unsigned head = row % (HEADS + KEY_HEADS), token = row / (HEADS + KEY_HEADS);
    const unsigned position = position_of(lengths, token);
    piece first = piece_of(0.0f), second = piece_of(0.0f);
    if (position != PADDING) {
        const u64 from = ((u64)token * TOKEN_HEADS + head) * 2 * HALF_PIECES + i;
        const u64 angle = (u64)position * 2 * HALF_PIECES + i;
        first = load_piece(qkv, from);
        second = load_piece(qkv, from + HALF_PIECES);
        rotate(first, second, load_floats(angles, angle), load_floats(angles, angle + HALF_PIECES));
    }
    if (head < HEADS) {
        const u64 to = ((u64)token * HEADS + head) * 2 * HALF_PIECES + i;
        store_piece(q, to, first);
        store_piece(q, to + HALF_PIECES, second);
    } else {
        const u64 to = ((u64)token * KEY_HEADS + head - HEADS) * 2 * HALF_PIECES + i;
#if CODED
        store_floats(rotated, to, first);
        store_floats(rotated, to + HALF_PIECES, second);
#else
        store_piece(rotated, to, first);
        store_piece(rotated, to + HALF_PIECES, second);
#endif
    }
}

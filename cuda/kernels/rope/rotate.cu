// Rotary position embedding, in pieces of the two halves of a head. The definition is in core/workloads/src/ops/rope.rs.
//
// rope_pairs  a thread rotates one piece of one head
// rope_heads  a thread rotates the same piece of HEADS_AT_ONCE heads, and reads its cosines and sines once

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Numbers of a table for one piece, at most 16 bytes at a time.
struct alignas(WIDTH < 4 ? WIDTH * sizeof(float) : 16) table_piece {
    float at[WIDTH];
};

// Rotates a piece of both halves by the angle with this cosine and sine.
__device__ __forceinline__ void rotate(piece& first, piece& second, const table_piece& cosine,
                                       const table_piece& sine) {
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        const float signed_sine = INVERSE ? -sine.at[i] : sine.at[i];
        const float rotated = first.at[i] * cosine.at[i] - second.at[i] * signed_sine;
        second.at[i] = second.at[i] * cosine.at[i] + first.at[i] * signed_sine;
        first.at[i] = rotated;
    }
}

__device__ __forceinline__ table_piece angle_piece(const float* __restrict__ table, u64 index) {
    return reinterpret_cast<const table_piece*>(table)[index];
}

extern "C" __global__ void rope_pairs(const elem* __restrict__ x, const float* __restrict__ cosines,
                                      const float* __restrict__ sines, elem* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= COUNT) return;
    // The count fits into 32 bits, where division by a constant is cheaper.
    const unsigned i = (unsigned)index % HALF_PIECES;
    const unsigned row = (unsigned)index / HALF_PIECES;
    const u64 angle = (u64)(row % POSITIONS) * HALF_PIECES + i;
    const u64 at = (u64)row * 2 * HALF_PIECES + i;
    piece first = load_piece(x, at), second = load_piece(x, at + HALF_PIECES);
    rotate(first, second, angle_piece(cosines, angle), angle_piece(sines, angle));
    store_piece(out, at, first);
    store_piece(out, at + HALF_PIECES, second);
}

extern "C" __global__ void rope_heads(const elem* __restrict__ x, const float* __restrict__ cosines,
                                      const float* __restrict__ sines, elem* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= COUNT) return;
    const unsigned i = (unsigned)index % HALF_PIECES;
    const unsigned position = (unsigned)index / HALF_PIECES % POSITIONS;
    const unsigned first_head = (unsigned)index / (HALF_PIECES * POSITIONS) * HEADS_AT_ONCE;
    const u64 angle = (u64)position * HALF_PIECES + i;
    // All loads are in flight before the first is needed.
    stored firsts[HEADS_AT_ONCE], seconds[HEADS_AT_ONCE];
#pragma unroll
    for (unsigned k = 0; k < HEADS_AT_ONCE; k++) {
        if (first_head + k >= HEADS) continue;
        const u64 at = ((u64)(first_head + k) * POSITIONS + position) * 2 * HALF_PIECES + i;
        firsts[k] = load_stored(x, at);
        seconds[k] = load_stored(x, at + HALF_PIECES);
    }
    const table_piece cosine = angle_piece(cosines, angle), sine = angle_piece(sines, angle);
#pragma unroll
    for (unsigned k = 0; k < HEADS_AT_ONCE; k++) {
        if (first_head + k >= HEADS) continue;
        const u64 at = ((u64)(first_head + k) * POSITIONS + position) * 2 * HALF_PIECES + i;
        piece first = widened(firsts[k]), second = widened(seconds[k]);
        rotate(first, second, cosine, sine);
        store_piece(out, at, first);
        store_piece(out, at + HALF_PIECES, second);
    }
}

// Copies of rows to their pages: the last stage of `separate`. The definition is in core/workloads/src/ops/rope_append.

#include "lib/pieces.cuh"
#include "rope_append/place.cuh"

#if CODED
// Words that are moved as one.
struct alignas(4 * WIDTH) moved {
    unsigned at[WIDTH];
};
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
#if CODED
    rope_append_append(const unsigned* __restrict__ codes, const float* __restrict__ code_scales,
                       const unsigned* __restrict__ table, const unsigned* __restrict__ lengths,
                       unsigned* __restrict__ cache, float* __restrict__ scales) {
#else
    rope_append_append(const elem* __restrict__ qkv, const elem* __restrict__ rotated,
                       const unsigned* __restrict__ table, const unsigned* __restrict__ lengths,
                       elem* __restrict__ cache) {
#endif
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= COUNT) return;
    // Rows of new tokens: all keys, then all values.
    const unsigned i = (unsigned)index % ROW_PIECES, row = (unsigned)index / ROW_PIECES, key_head = row % KEY_HEADS;
    const unsigned value = row / (TOKENS * KEY_HEADS), token = row / KEY_HEADS % TOKENS;
    const unsigned position = position_of(lengths, token);
    if (position == PADDING) return;
    const u64 to = cache_row(table, token, position, value, key_head);
#if CODED
    reinterpret_cast<moved*>(cache)[to * ROW_PIECES + i] = reinterpret_cast<const moved*>(codes)[index];
    if (i == 0) scales[to] = code_scales[row];
#else
    const u64 head = (u64)token * TOKEN_HEADS + HEADS + KEY_HEADS + key_head;
    const stored from = value == 0 ? load_stored(rotated, index) : load_stored(qkv, head * ROW_PIECES + i);
    reinterpret_cast<stored*>(cache)[to * ROW_PIECES + i] = from;
#endif
}

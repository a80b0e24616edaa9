// Codes and scales of rotated keys and of values, in the order of tokens: the second stage of `separate`. LANES neighbours hold a
// head. The definition is in core/workloads/src/ops/rope_append.

#include "rope_append/place.cuh"
#include "rope_append/codes.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    rope_append_quantize(const elem* __restrict__ qkv, const float* __restrict__ rotated, unsigned* __restrict__ codes,
                         float* __restrict__ code_scales) {
    const unsigned lane = threadIdx.x % LANES;
    const u64 team = flat_workgroup() * (THREADS / LANES) + threadIdx.x / LANES;
    // Rows of the codes: keys of all tokens, then values.
    const bool within = team < 2ull * TOKENS * KEY_HEADS && lane < HALF_PIECES;
    const u64 row = within ? team : 0;
    piece first = piece_of(0.0f), second = piece_of(0.0f);
    if (within && row < (u64)TOKENS * KEY_HEADS) {
        const u64 from = row * 2 * HALF_PIECES + lane;
        first = load_floats(rotated, from);
        second = load_floats(rotated, from + HALF_PIECES);
    } else if (within) {
        const u64 token = row / KEY_HEADS - TOKENS, head = HEADS + KEY_HEADS + row % KEY_HEADS;
        const u64 from = (token * TOKEN_HEADS + head) * 2 * HALF_PIECES + lane;
        first = load_piece(qkv, from);
        second = load_piece(qkv, from + HALF_PIECES);
    }
    const unsigned largest = largest_of_head(first, second);
    const float found = scale_of(largest), inverse = inverse_of(found);
    if (!within) return;
    const u64 to = row * 2 * HALF_PIECES + lane;
    store_codes(codes, to, first, largest, inverse);
    store_codes(codes, to + HALF_PIECES, second, largest, inverse);
    if (lane == 0) code_scales[row] = found;
}

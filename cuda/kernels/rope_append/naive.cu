// A head of a new token per thread. The definition is in core/workloads/src/ops/rope_append.

#include "rope_append/place.cuh"
#if CODED
#include "quantize/codes.cuh"
#endif

constexpr unsigned HALF = D / 2;

// Element `i` of a head, rotated unless it is a value's.
__device__ __forceinline__ float element(const elem* __restrict__ x, const float* __restrict__ angles, bool rotated,
                                         unsigned i) {
    const float own = load(x[i]);
    if (!rotated) return own;
    const float cosine = angles[i % HALF], sine = angles[HALF + i % HALF];
    return i < HALF ? own * cosine - load(x[i + HALF]) * sine : own * cosine + load(x[i - HALF]) * sine;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rope_append_naive(const elem* __restrict__ qkv, const float* __restrict__ angles, const unsigned* __restrict__ table,
                      const unsigned* __restrict__ lengths,
#if CODED
                      unsigned* __restrict__ cache, elem* __restrict__ q, float* __restrict__ scales) {
#else
                      elem* __restrict__ cache, elem* __restrict__ q) {
#endif
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)TOKENS * TOKEN_HEADS) return;
    const unsigned token = (unsigned)(index / TOKEN_HEADS), head = (unsigned)(index % TOKEN_HEADS);
    const unsigned position = position_of(lengths, token);
    const elem* x = qkv + index * D;
    const float* own_angles = angles + (u64)(position == PADDING ? 0 : position) * D;
    if (head < HEADS) {
        elem* to = q + ((u64)token * HEADS + head) * D;
        for (unsigned i = 0; i < D; i++) to[i] = to_elem(position == PADDING ? 0.0f : element(x, own_angles, true, i));
        return;
    }
    if (position == PADDING) return;
    const unsigned kept = head - HEADS;
    const bool rotated = kept < KEY_HEADS;
    const u64 row = cache_row(table, token, position, kept / KEY_HEADS, kept % KEY_HEADS);
#if CODED
    unsigned largest = 0;
    for (unsigned i = 0; i < D; i++) largest = max(largest, magnitude(element(x, own_angles, rotated, i)));
    const float found = scale_of(largest), inverse = inverse_of(found);
    scales[row] = found;
    // Not unrolled, and counted by words: with a step of 4, NVRTC 13.0 compares a shifted counter and ends after the first word.
#pragma unroll 1
    for (unsigned word = 0; word < D / 4; word++) {
        float four[4];
#pragma unroll
        for (unsigned j = 0; j < 4; j++) four[j] = element(x, own_angles, rotated, 4 * word + j);
        cache[row * (D / 4) + word] = not_finite(largest) ? 0 : word_of(four, inverse);
    }
#else
    for (unsigned i = 0; i < D; i++) cache[row * D + i] = to_elem(element(x, own_angles, rotated, i));
#endif
}

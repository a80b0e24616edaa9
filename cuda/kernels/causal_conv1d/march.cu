// Causal depthwise convolution along stretches of tokens. The definition is in core/workloads/src/ops/causal_conv1d.rs.
//
// A thread has WIDTH neighbouring channels and up to TOKENS tokens. Its taps stay in registers, and so do the last tokens. It reads
// AT_ONCE tokens before it uses the first of them.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/softplus.cuh"

constexpr unsigned AT_ONCE = 4;
// Tokens before those that are read.
constexpr unsigned BEFORE = TAPS - 1;

extern "C" __global__ void __launch_bounds__(THREADS)
    causal_conv1d_march(const elem* __restrict__ x, const elem* __restrict__ w, const elem* __restrict__ bias, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const unsigned channels = at % PIECES, first = at / PIECES % STRETCHES * TOKENS;
    const u64 sequence = at / PIECES / STRETCHES * S;
    // The taps of a channel are neighbours, and so are those of the piece.
    float taps[WIDTH * TAPS];
#pragma unroll
    for (unsigned i = 0; i < TAPS; i++) {
        const piece some = load_piece(w, (u64)channels * TAPS + i);
#pragma unroll
        for (unsigned e = 0; e < WIDTH; e++) taps[i * WIDTH + e] = some.at[e];
    }
    const piece start = load_piece(bias, channels);
    piece held[BEFORE + AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i + 1 < TAPS; i++) {
        // Tokens before the first are zero.
        held[i] = first + i + 1 >= TAPS ? load_piece(x, (sequence + first + i - BEFORE) * PIECES + channels) : piece_of(0.0f);
    }
    const unsigned end = min(first + TOKENS, S);
#pragma unroll 1
    for (unsigned token = first; token < end; token += AT_ONCE) {
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++) {
            // Tokens behind the last repeat it.
            held[BEFORE + i] = load_piece(x, (sequence + min(token + i, S - 1)) * PIECES + channels);
        }
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++) {
            piece sum = start;
#pragma unroll
            for (unsigned e = 0; e < WIDTH; e++) {
#pragma unroll
                for (unsigned j = 0; j < TAPS; j++) sum.at[e] = fmaf(taps[e * TAPS + j], held[i + j].at[e], sum.at[e]);
#if SILU
                sum.at[e] = silu(sum.at[e]);
#endif
            }
            if (token + i < end) store_piece(out, (sequence + token + i) * PIECES + channels, sum);
        }
#pragma unroll
        for (unsigned i = 0; i + 1 < TAPS; i++) held[i] = held[i + AT_ONCE];
    }
}

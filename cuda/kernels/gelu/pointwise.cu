// GELU and its derivative, in pieces. The definition is in core/workloads/src/ops/gelu.rs.

#include "gelu/share.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void gelu_forward(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(x, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        value.at[i] = ERF ? gelu_erf(value.at[i]) : gelu_tanh(value.at[i]);
    }
    store_piece(out, at, value);
}

extern "C" __global__ void gelu_backward(const elem* __restrict__ x, const elem* __restrict__ dout,
                                         elem* __restrict__ dx) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const piece value = load_piece(x, at);
    piece gradient = load_piece(dout, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        gradient.at[i] *= ERF ? slope_erf(value.at[i]) : slope_tanh(value.at[i]);
    }
    store_piece(dx, at, gradient);
}

// Backward pass of a layer without GELU's stored result, which is recomputed. One thread reads each element before it writes it:
// `x` and `anew` may be one buffer, and so may both gradients.
extern "C" __global__ void gelu_through(const elem* x, const elem* dout, elem* anew, elem* gradient) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(x, at), slope = load_piece(dout, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        slope.at[i] *= ERF ? slope_erf(value.at[i]) : slope_tanh(value.at[i]);
        value.at[i] = ERF ? gelu_erf(value.at[i]) : gelu_tanh(value.at[i]);
    }
    store_piece(anew, at, value);
    store_piece(gradient, at, slope);
}

// Values multiplied by a function of the gate, in pieces. The definition is in core/workloads/src/ops/mlp_glu.rs.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "mlp_glu/share.cuh"

extern "C" __global__ void mlp_glu_product(const elem* __restrict__ gate, const elem* __restrict__ values,
                                           elem* __restrict__ hidden) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const piece of_gate = load_piece(gate, at);
    piece value = load_piece(values, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        value.at[i] *= GELU ? gelu_tanh(of_gate.at[i]) : gate_silu(of_gate.at[i]);
    }
    store_piece(hidden, at, value);
}

// Epilogues of a GEMM: sums are multiplied by a function of the gate at the same place.

#include "mlp_glu/share.cuh"

struct SiluGated {
    const elem* __restrict__ gate;
    __device__ __forceinline__ float operator()(u64 at, unsigned, float sum) const { return gate_silu(load(gate[at])) * sum; }
};

struct GeluGated {
    const elem* __restrict__ gate;
    __device__ __forceinline__ float operator()(u64 at, unsigned, float sum) const { return gelu_tanh(load(gate[at])) * sum; }
};
